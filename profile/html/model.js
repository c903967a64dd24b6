/*
 * The data and the trees that are made of it. No DOM here.
 *
 * The stacks come as one tree in preorder: the subtree of node i is the range i .. end[i]-1. So a pass over
 * a subtree is a loop, and leaving a subtree out is one assignment. A view does not copy the tree: a
 * node of the view is a list of the nodes it was merged from, and its children are made when somebody asks.
 */
const KINDS = [
	{ id: 'ruby', label: 'Ruby', long: 'Ruby' },
	{ id: 'jit', label: 'Ruby (JIT)', long: 'Ruby, run as JIT code' },
	{ id: 'cfunc', label: 'C function', long: 'C function called from Ruby' },
	{ id: 'ext', label: 'Extension', long: 'Native code of an extension' },
	{ id: 'vm', label: 'VM', long: 'Native code of the Ruby VM' },
	{ id: 'native', label: 'Other native', long: 'Other native code' },
	{ id: 'kernel', label: 'Kernel', long: 'Kernel' },
	{ id: 'gc', label: 'GC', long: 'Garbage collection' },
	{ id: 'mark', label: 'Not exact', long: 'Mark: this stack is not exact' },
];
const KIND = Object.fromEntries(KINDS.map((k, i) => [k.id, i]));
const FOLD_VM = 1, FOLD_STARTUP = 2;
const OUTCOMES = { 1: 'exact', 2: 'transient', 3: 'truncated', 4: 'no-context' };

class Profile {
	constructor(data) {
		const { functions: f, frames, nodes } = data;
		const n = nodes.up.length + 1;

		this.data = data;
		this.strings = data.strings;
		this.nrFunctions = f.kind.length;
		this.functionKind = Uint8Array.from(f.kind);
		this.frameFunction = Int32Array.from(frames.function);
		this.nrNodes = n; /* node 0 is the root: no frame */
		this.parent = new Int32Array(n);
		this.end = new Int32Array(n);
		this.frame = new Int32Array(n);
		this.fn = new Int32Array(n);
		this.fold = new Uint8Array(n);
		this.maxDepth = 0;
		this.frame[0] = this.fn[0] = -1;

		const path = [0];
		for (let i = 1; i < n; i++) {
			/* up: how many levels to leave before this node is put on top. */
			for (let up = nodes.up[i - 1]; up > 0 && path.length > 1; up--)
				this.end[path.pop()] = i;
			const coded = nodes.frame[i - 1];
			this.parent[i] = path[path.length - 1];
			this.frame[i] = coded >>> 2;
			this.fold[i] = coded & 3;
			this.fn[i] = this.frameFunction[coded >>> 2];
			path.push(i);
			if (path.length > this.maxDepth)
				this.maxDepth = path.length;
		}
		while (path.length > 0)
			this.end[path.pop()] = n;
		for (const w of data.weights)
			for (let i = 1; i < w.node.length; i++)
				w.node[i] += w.node[i - 1];
	}

	name(fn) {
		return this.strings[this.data.functions.name[fn]];
	}
	path(fn) {
		return this.strings[this.data.functions.path[fn]];
	}
	library(fn) {
		return this.strings[this.data.functions.library[fn]];
	}
	/* One of KINDS, in the words of the function's language. */
	kind(fn) {
		const kind = KINDS[this.functionKind[fn]], languages = this.data.functions.language;
		const language = languages === undefined ? '' : this.strings[languages[fn]];
		return language === '' ? kind : { id: kind.id, label: kind.label.replace('Ruby', language), long: kind.long.replace('Ruby', language) };
	}
}

/* A condition on frames: { kinds: Set of kind numbers, vm: bool, startup: bool }. */
class View {
	constructor(profile) {
		const n = profile.nrNodes;

		this.p = profile;
		this.self = new Float64Array(n);
		this.total = new Float64Array(n);
		this.samples = new Float64Array(n);
		this.visible = new Uint8Array(n);
		this.slot = new Int32Array(profile.nrFunctions);
		this.slotOwner = new Float64Array(profile.nrFunctions);
		this.stamp = 0;
	}

	/* Adds up what one trigger charged to the threads of a scope. accepts(thread index). */
	weigh(trigger, accepts) {
		const { self, total, samples } = this, { parent } = this.p;

		self.fill(0);
		samples.fill(0);
		this.outcomes = new Map(); /* outcome -> { weight, samples, reasons: Map } */
		for (const w of this.p.data.weights) {
			if (w.trigger !== trigger || !accepts(w.thread))
				continue;
			for (let i = 0; i < w.node.length; i++) {
				self[w.node[i]] += w.weight[i];
				samples[w.node[i]] += w.count[i];
				const outcome = w.outcome[i] >>> 8, reason = w.outcome[i] & 255;
				let o = this.outcomes.get(outcome);
				if (o === undefined)
					this.outcomes.set(outcome, o = { weight: 0, samples: 0, reasons: new Map() });
				o.weight += w.weight[i];
				o.samples += w.count[i];
				o.reasons.set(reason, (o.reasons.get(reason) || 0) + w.count[i]);
			}
		}
		total.set(self);
		for (let i = self.length - 1; i > 0; i--) {
			total[parent[i]] += total[i];
			samples[parent[i]] += samples[i];
		}
	}

	/* Says which nodes are shown, and starts the merged tree anew. */
	show(filter) {
		const { fn, fold, functionKind, nrNodes } = this.p, v = this.visible;
		const kinds = KINDS.map((_, i) => (filter.kinds.has(i) ? 1 : 0));

		for (let i = 1; i < nrNodes; i++)
			v[i] = (fold[i] === FOLD_VM && !filter.vm) || (fold[i] === FOLD_STARTUP && !filter.startup)
				? 0 : kinds[functionKind[fn[i]]];
		this.root = {
			fn: -1, parent: null, depth: 0, x: 0, total: this.total[0], self: 0, samples: this.samples[0],
			sources: [0], children: null,
		};
	}

	/*
	 * The children of a node of the view. The weight of what is left out goes to the frame that called it;
	 * frames behind it are merged with those of the same function that were called directly.
	 */
	children(node) {
		if (node.children !== null)
			return node.children;
		const { end, fn } = this.p, { visible, total, self, samples, slot, slotOwner } = this;
		const found = [], stamp = ++this.stamp;

		for (const s of node.sources) {
			node.self += self[s];
			for (let i = s + 1, stop = end[s]; i < stop;) {
				if (total[i] === 0) {
					i = end[i];
				} else if (visible[i] === 0) {
					node.self += self[i];
					i++;
				} else {
					const f = fn[i];
					if (slotOwner[f] !== stamp) {
						slotOwner[f] = stamp;
						slot[f] = found.length;
						found.push({
							fn: f, parent: node, depth: node.depth + 1, x: 0, total: 0, self: 0, samples: 0,
							sources: [], children: null,
						});
					}
					const child = found[slot[f]];
					child.sources.push(i);
					child.total += total[i];
					child.samples += samples[i];
					i = end[i];
				}
			}
		}
		found.sort((a, b) => b.total - a.total || (this.p.name(a.fn) < this.p.name(b.fn) ? -1 : 1));
		let x = node.x;
		for (const child of found) {
			child.x = x;
			x += child.total;
		}
		return node.children = found;
	}

	selfOf(node) {
		this.children(node);
		return node.self;
	}

	/* The node of the view into which a source was merged; when that is not shown, its nearest caller. */
	locate(source) {
		const { parent, fn } = this.p, chain = [];

		for (let i = source; i > 0; i = parent[i])
			if (this.visible[i] === 1)
				chain.push(fn[i]);
		return this.follow(chain.reverse());
	}

	/* The node at the end of a path of functions, as far as the path is there. */
	follow(functions) {
		let node = this.root;

		for (const f of functions) {
			const next = this.children(node).find((c) => c.fn === f);
			if (next === undefined)
				break;
			node = next;
		}
		return node;
	}

	/* The source that stands for a node when the tree is built anew: the heaviest. */
	anchor(node) {
		return node.sources.reduce((best, s) => (this.total[s] > this.total[best] ? s : best), node.sources[0]);
	}

	/*
	 * What a search found inside a node of the view, the node itself included: the weight of all
	 * stacks with at least one matching frame (each counted once), and the topmost matching sources.
	 */
	search(node, matches) {
		const { end, fn } = this.p, { visible, total } = this, tops = [];
		let weight = 0;

		if (node.fn >= 0 && matches[node.fn] === 1)
			return { weight: node.total, tops: [this.anchor(node)] };
		for (const s of node.sources)
			for (let i = s + 1, stop = end[s]; i < stop;) {
				if (total[i] === 0) {
					i = end[i];
				} else if (visible[i] === 1 && matches[fn[i]] === 1) {
					weight += total[i];
					tops.push(i);
					i = end[i];
				} else {
					i++;
				}
			}
		return { weight, tops };
	}

	/* Self and total of every function inside a node of the view. Recursion is counted once. */
	functions(node) {
		const { end, fn, nrFunctions } = this.p, { visible, total, self } = this;
		const sumTotal = new Float64Array(nrFunctions), sumSelf = new Float64Array(nrFunctions);
		const active = new Int32Array(nrFunctions), path = [];
		let rest = 0; /* charged to no function that is shown */

		for (const s of node.sources)
			for (let i = s; i < end[s];) {
				if (total[i] === 0) {
					i = end[i];
					continue;
				}
				while (path.length > 0 && i >= end[path[path.length - 1]])
					active[fn[path.pop()]]--;
				const f = fn[i];
				if (i > 0 && visible[i] === 1) {
					if (active[f]++ === 0)
						sumTotal[f] += total[i];
					sumSelf[f] += self[i];
					path.push(i);
				} else if (path.length > 0) {
					sumSelf[fn[path[path.length - 1]]] += self[i];
				} else {
					rest += self[i];
				}
				i++;
				if (i >= end[s])
					while (path.length > 0)
						active[fn[path.pop()]]--;
			}
		return { sumTotal, sumSelf, rest };
	}

	/* The lines that a node's weight passes through, heaviest first: [{ line, total, flags }]. */
	lines(node) {
		const sums = new Map(), { frames } = this.p.data;

		for (const s of node.sources) {
			const frame = this.p.frame[s], line = frames.line[frame];
			const l = sums.get(line) || { line, total: 0, flags: 0 };
			l.total += this.total[s];
			l.flags |= frames.flags[frame];
			sums.set(line, l);
		}
		return [...sums.values()].sort((a, b) => b.total - a.total || a.line - b.line);
	}
}

/* 1 for each function whose name, file or library has the text; /text/ is a regular expression. */
function matchFunctions(profile, query) {
	const matches = new Uint8Array(profile.nrFunctions);
	const regexp = /^\/(.+)\/$/.exec(query);
	let test;

	if (regexp !== null) {
		const r = new RegExp(regexp[1], 'i');
		test = (s) => r.test(s);
	} else {
		const wanted = query.toLowerCase();
		test = (s) => s.toLowerCase().includes(wanted);
	}
	const hit = profile.strings.map(test), f = profile.data.functions;
	for (let i = 0; i < matches.length; i++)
		matches[i] = hit[f.name[i]] || hit[f.path[i]] || hit[f.library[i]] ? 1 : 0;
	return matches;
}

function formatNumber(x) {
	return Math.round(x).toLocaleString('en');
}

function formatWeight(weight, unit) {
	if (unit !== 'ns')
		return formatNumber(weight) + ' ' + (weight === 1 && unit.endsWith('s') ? unit.slice(0, -1) : unit);
	if (weight >= 1e10)
		return (weight / 1e9).toFixed(1) + ' s';
	if (weight >= 1e9)
		return (weight / 1e9).toFixed(2) + ' s';
	if (weight >= 1e8 || weight === 0)
		return Math.round(weight / 1e6) + ' ms';
	return weight >= 1e6 ? (weight / 1e6).toFixed(1) + ' ms' : (weight / 1e3).toFixed(1) + ' µs';
}

function formatShare(part, whole) {
	if (!(whole > 0) || part === 0)
		return '0%';
	const share = (100 * part) / whole;
	if (share > 0 && share < 0.1)
		return '<0.1%';
	return (share < 100 && share > 99.9 ? '>99.9' : share === 100 ? '100' : share.toFixed(1)) + '%';
}
