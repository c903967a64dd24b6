/*
 * The page: controls, keys, what is told about a frame, and the address that keeps the view.
 * Names come from other people's programs: they enter the page as text only (textContent), never as markup.
 */
const $ = (id) => document.getElementById(id);

function el(tag, attributes, ...children) {
	const e = document.createElement(tag);
	for (const [key, value] of Object.entries(attributes || {}))
		if (value !== null && value !== undefined && value !== false)
			e.setAttribute(key, value === true ? '' : value);
	e.append(...children.filter((c) => c !== null && c !== undefined));
	return e;
}

const PRESETS = {
	default: { kinds: KINDS.map((_, i) => i), vm: false, startup: false },
	ruby: { kinds: [KIND.ruby, KIND.jit, KIND.cfunc, KIND.mark], vm: false, startup: false },
	all: { kinds: KINDS.map((_, i) => i), vm: true, startup: true },
};
const TABLE_STEP = 100;

class Page {
	constructor(data) {
		this.p = new Profile(data);
		this.data = data;
		this.view = new View(this.p);
		this.state = {
			trigger: data.select.trigger, thread: data.select.thread, query: '', flame: false, table: false,
			kinds: new Set(PRESETS.default.kinds), vm: false, startup: false,
		};
		this.trail = [];
		this.sort = { key: 'self', down: true };
		this.tableRows = TABLE_STEP;
		this.graph = new Graph($('canvas'), $('scroller'), $('spacer'));
		this.describeRecording();
		this.buildControls();
		this.bindGraph();
		this.bindKeys();
		this.applyHash();
		addEventListener('hashchange', () => this.applyHash());
	}

	get unit() {
		return this.data.triggers[this.state.trigger]?.unit || '';
	}

	/* ---- what is recorded ------------------------------------------------------------------------ */

	describeRecording() {
		const { meta, processes } = this.data, about = [];

		$('title').textContent = this.data.title;
		if (processes.length === 1)
			about.push('pid ' + processes[0].pid, processes[0].runtime || processes[0].comm);
		else if (processes.length > 1)
			about.push(processes.length + ' processes');
		if (meta.duration_ns > 0)
			about.push((meta.duration_ns / 1e9).toFixed(1) + ' s');
		if (meta.rate_hz > 0)
			about.push(meta.rate_hz + ' Hz');
		if (meta.started_at)
			about.push(meta.started_at);
		if (meta.hostname)
			about.push(meta.hostname);
		$('about').textContent = about.filter((s) => s).join(' · ');
	}

	/* How far the stacks of this selection can be trusted. */
	describeQuality() {
		const parts = [], { outcomes } = this.view;
		const samples = [...outcomes.values()].reduce((sum, o) => sum + o.samples, 0);
		const add = (...c) => parts.push(el('span', {}, ...c));

		add(el('b', {}, formatNumber(samples)), samples === 1 ? ' sample' : ' samples');
		for (const [key, name] of Object.entries(OUTCOMES)) {
			const o = outcomes.get(Number(key));
			if (o === undefined && key > 3)
				continue;
			const n = o === undefined ? 0 : o.samples;
			const why = o === undefined ? [] : [...o.reasons].filter(([r]) => r !== 0).sort((a, b) => b[1] - a[1])
				.map(([r, count]) => formatNumber(count) + ' ' + (this.data.reasons[r] || 'reason ' + r));
			const label = key === '4' ? 'without a Ruby context' : name;
			add(el('b', n > 0 && (key === '2' || key === '3') ? { class: 'warn' } : {}, formatShare(n, samples)), ' ' + label,
				why.length > 0 ? el('span', { class: 'soft' }, ' (' + why.join(', ') + ')') : null);
		}
		for (const [key, o] of outcomes)
			if (OUTCOMES[key] === undefined)
				add(el('b', { class: 'warn' }, formatShare(o.samples, samples)), ' of unknown outcome');
		const lost = this.data.losses.reduce((sum, l) => sum + l.count, 0);
		const what = this.data.losses.filter((l) => l.count > 0).map((l) => formatNumber(l.count) + ' ' + l.what);
		add(el('b', lost > 0 ? { class: 'warn' } : {}, formatNumber(lost)), ' lost',
			what.length > 0 ? el('span', { class: 'soft' }, ' (' + what.join(', ') + ')') : null);
		add(el('b', {}, formatNumber(this.data.stacks)), ' distinct stacks');
		$('quality').replaceChildren(...parts.flatMap((e, i) => (i === 0 ? [e] : [' · ', e])));
	}

	threadLabel(t) {
		const names = [t.name, t.comm].filter((s, i, all) => s && all.indexOf(s) === i);
		return t.tid + (names.length > 0 ? ' ' + names[0] + (names.length > 1 ? ' (' + names[1] + ')' : '') : '');
	}

	/* 'all', 'p<process>' or 't<thread>': which threads that means. */
	scopeAccepts(scope) {
		const n = Number(scope.slice(1));
		if (scope[0] === 't')
			return (t) => t === n;
		if (scope[0] === 'p')
			return (t) => this.data.threads[t].process === n;
		return () => true;
	}

	/* ---- controls ---------------------------------------------------------------------------------- */

	buildControls() {
		const s = this.state;

		this.data.triggers.forEach((t, i) => $('trigger').append(el('option', { value: i }, t.name + ' (' + (t.unit === 'ns' ? 'ms' : t.unit) + ')')));
		$('trigger').addEventListener('change', () => {
			s.trigger = Number($('trigger').value);
			this.fillThreads();
			this.rebuild(true);
			this.say(this.totalText());
		});
		$('thread').addEventListener('change', () => {
			s.thread = $('thread').value;
			this.rebuild(true);
			this.say(this.totalText());
		});
		KINDS.forEach((k, i) => {
			const input = el('input', { type: 'checkbox', id: 'kind-' + k.id, title: k.long });
			input.addEventListener('change', () => {
				input.checked ? s.kinds.add(i) : s.kinds.delete(i);
				this.refilter(k.long + (input.checked ? ' shown' : ' hidden'));
			});
			$('kinds').append(el('label', { class: 'chip', title: k.long }, input, el('span', { class: 'swatch ' + k.id, 'aria-hidden': 'true' }),
				el('span', { class: 'text' }, k.label), el('span', { class: 'share', id: 'share-' + k.id })));
		});
		for (const [key, label, title] of [
			['vm', 'VM plumbing', 'Native code of the VM that stands between Ruby frames'],
			['startup', 'Start-up', 'Native frames before the first Ruby frame']]) {
			const input = el('input', { type: 'checkbox', id: 'fold-' + key });
			input.addEventListener('change', () => {
				s[key] = input.checked;
				this.refilter(label + (input.checked ? ' shown' : ' folded'));
			});
			$('folds').append(el('label', { class: 'chip', title }, input, el('span', { class: 'text' }, label)));
		}
		for (const b of $('presets').querySelectorAll('button'))
			b.addEventListener('click', () => {
				const preset = PRESETS[b.dataset.preset];
				Object.assign(s, { kinds: new Set(preset.kinds), vm: preset.vm, startup: preset.startup });
				this.refilter(b.textContent + ' view');
			});
		let timer = 0;
		$('search').addEventListener('input', () => {
			clearTimeout(timer);
			timer = setTimeout(() => this.search($('search').value), 120);
		});
		$('search').addEventListener('keydown', (e) => {
			if (e.key === 'Enter') {
				clearTimeout(timer);
				this.search($('search').value);
				this.nextMatch(1);
				this.showTab(false);
				$('graph-area').focus();
				e.preventDefault();
			} else if (e.key === 'Escape') {
				clearTimeout(timer);
				if ($('search').value === '')
					$('graph-area').focus();
				$('search').value = '';
				this.search('');
				e.preventDefault();
				e.stopPropagation();
			}
		});
		$('orientation').addEventListener('click', () => this.turn());
		$('reset').addEventListener('click', () => this.zoomReset());
		$('help-open').addEventListener('click', () => $('help').showModal());
		$('help-close').addEventListener('click', () => $('help').close());
		$('skip').addEventListener('click', (e) => {
			e.preventDefault();
			$('graph-area').focus();
		});
		$('tab-graph').addEventListener('click', () => this.showTab(false));
		$('tab-table').addEventListener('click', () => this.showTab(true));
		for (const tab of [$('tab-graph'), $('tab-table')])
			tab.addEventListener('keydown', (e) => {
				if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') {
					this.showTab(!s.table);
					$(s.table ? 'tab-table' : 'tab-graph').focus();
					e.stopPropagation();
				}
			});
		$('table-more').addEventListener('click', () => {
			this.tableRows += 5 * TABLE_STEP;
			this.fillTable();
		});
		for (const th of $('table').querySelectorAll('th[data-sort]'))
			th.firstElementChild.addEventListener('click', () => {
				const key = th.dataset.sort, number = key === 'self' || key === 'total';
				this.sort = { key, down: this.sort.key === key ? !this.sort.down : number };
				this.fillTable();
			});
	}

	/* The threads with what each was charged, heaviest first; by process when there are several. */
	fillThreads() {
		const { threads, processes, weights } = this.data, sums = new Float64Array(threads.length);

		for (const w of weights)
			if (w.trigger === this.state.trigger)
				for (const x of w.weight)
					sums[w.thread] += x;
		const text = (label, sum) => label + ' · ' + formatWeight(sum, this.unit);
		const all = sums.reduce((a, b) => a + b, 0), options = [el('option', { value: 'all' }, text('All threads', all))];
		const of = (process) => threads.map((t, i) => i).filter((i) => threads[i].process === process)
			.sort((a, b) => sums[b] - sums[a] || threads[a].tid - threads[b].tid)
			.map((i) => el('option', { value: 't' + i }, text(this.threadLabel(threads[i]), sums[i])));
		processes.forEach((process, i) => {
			if (processes.length === 1)
				options.push(...of(i));
			else
				options.push(el('optgroup', { label: 'pid ' + process.pid + ' ' + process.comm },
					el('option', { value: 'p' + i }, text('All threads of ' + process.pid,
						threads.reduce((sum, t, j) => sum + (t.process === i ? sums[j] : 0), 0))), ...of(i)));
		});
		$('thread').replaceChildren(...options);
		$('thread').value = this.state.thread;
	}

	syncControls() {
		const s = this.state;

		$('trigger').value = s.trigger;
		$('trigger-field').hidden = this.data.triggers.length < 2;
		$('thread').value = s.thread;
		KINDS.forEach((k, i) => $('kind-' + k.id).checked = s.kinds.has(i));
		$('fold-vm').checked = s.vm;
		$('fold-startup').checked = s.startup;
		for (const b of $('presets').querySelectorAll('button')) {
			const preset = PRESETS[b.dataset.preset];
			b.setAttribute('aria-pressed', preset.vm === s.vm && preset.startup === s.startup &&
				preset.kinds.length === s.kinds.size && preset.kinds.every((k) => s.kinds.has(k)));
		}
		$('orientation').textContent = s.flame ? 'Flame ↑' : 'Icicle ↓';
		$('orientation').setAttribute('aria-label', s.flame ? 'Layout: flame, root at the bottom' : 'Layout: icicle, root at the top');
		$('orientation').title = s.flame ? 'Root at the bottom. Click for icicle' : 'Root at the top. Click for flame';
		$('tab-graph').setAttribute('aria-selected', !s.table);
		$('tab-table').setAttribute('aria-selected', s.table);
		$('tab-graph').tabIndex = s.table ? -1 : 0;
		$('tab-table').tabIndex = s.table ? 0 : -1;
		$('panel-graph').hidden = s.table;
		$('panel-table').hidden = !s.table;
	}

	/* ---- trees ------------------------------------------------------------------------------------- */

	/* Trigger, thread or filter changed: the tree is made anew; zoom and focus stay where they can. */
	rebuild(weights) {
		const anchors = (this.trail || []).map((n) => this.view.anchor(n));
		const focus = this.graph.focus === null ? 0 : this.view.anchor(this.graph.focus);

		if (weights)
			this.view.weigh(this.state.trigger, this.scopeAccepts(this.state.thread));
		this.view.show(this.state);
		this.trail = [];
		for (const a of anchors)
			this.pushZoom(this.view.locate(a));
		this.install(this.view.locate(focus));
	}

	pushZoom(node) {
		const last = this.trail.length > 0 ? this.trail[this.trail.length - 1] : this.view.root;
		if (node !== last && node.depth > 0)
			this.trail.push(node);
	}

	get zoom() {
		return this.trail.length > 0 ? this.trail[this.trail.length - 1] : this.view.root;
	}

	install(focus) {
		const g = this.graph;

		g.flame = this.state.flame;
		g.rootLabel = this.rootLabel();
		$('empty').hidden = this.view.root.total > 0;
		this.syncControls();
		this.describeQuality();
		this.hideTooltip();
		g.setView(this.view, this.zoom);
		this.fillShares();
		this.afterZoom();
		this.setFocus(focus);
		g.revealRoot();
		if (this.zoom.depth > 0)
			g.reveal(this.zoom.depth);
	}

	rootLabel() {
		const s = this.state.thread, n = Number(s.slice(1));
		const who = s === 'all' ? 'all' : s[0] === 'p' ? 'pid ' + this.data.processes[n].pid : this.threadLabel(this.data.threads[n]);
		return who + ' · ' + formatWeight(this.view.root.total, this.unit);
	}

	totalText() {
		return this.rootLabel() + ', trigger ' + (this.data.triggers[this.state.trigger]?.name || '');
	}

	refilter(said) {
		this.rebuild(false);
		this.say(said);
	}

	/* Self time by kind, in this view. */
	fillShares() {
		const { sumSelf } = this.view.functions(this.view.root), kinds = new Float64Array(KINDS.length);

		sumSelf.forEach((w, f) => kinds[this.p.functionKind[f]] += w);
		KINDS.forEach((k, i) => {
			$('share-' + k.id).textContent = kinds[i] > 0 ? formatShare(kinds[i], this.view.root.total) : '';
			$('share-' + k.id).title = 'Self time of this kind in this view';
		});
	}

	afterZoom() {
		const nodes = [this.view.root, ...this.trail];
		const crumb = (n, i) => {
			const last = i === nodes.length - 1;
			const b = el('button', { type: 'button', 'aria-current': last ? 'true' : null }, n.depth === 0 ? 'all' : this.p.name(n.fn));
			b.title = b.textContent;
			b.addEventListener('click', () => this.zoomTo(n));
			return i === 0 ? [b] : [el('span', { 'aria-hidden': 'true' }, '›'), b];
		};
		$('crumbs').replaceChildren(...(nodes.length === 1 ? [] : nodes.length > 5
			? [...crumb(nodes[0], 0), '…', ...nodes.slice(-3).flatMap((n, i) => crumb(n, nodes.length - 3 + i))]
			: nodes.flatMap(crumb)));
		$('reset').disabled = this.trail.length === 0;
		this.search(this.state.query);
		this.fillTable();
		this.writeHash();
	}

	zoomTo(node) {
		const at = this.trail.indexOf(node);

		if (at >= 0)
			this.trail.length = at + 1;
		else if (node.depth === 0)
			this.trail = [];
		else {
			/* A frame further out than the last zoom: that zoom is left, not entered. */
			while (this.trail.length > 0 && this.zoom.depth >= node.depth)
				this.trail.pop();
			this.pushZoom(node);
		}
		this.setFocus(node);
		this.afterZoom();
		this.say('Zoomed to ' + this.frameText(node));
		this.graph.zoomTo(this.zoom, () => this.zoom.depth > 0 ? this.graph.reveal(this.zoom.depth) : this.graph.revealRoot());
	}

	zoomOut() {
		if (this.trail.length === 0)
			return;
		const focus = this.graph.focus;
		this.zoomTo(this.trail.length > 1 ? this.trail[this.trail.length - 2] : this.view.root);
		this.setFocus(focus);
	}

	zoomReset() {
		this.zoomTo(this.view.root);
	}

	turn() {
		this.state.flame = !this.state.flame;
		this.graph.flame = this.state.flame;
		this.syncControls();
		this.graph.layout();
		this.graph.revealRoot();
		this.graph.reveal(this.graph.focus.depth);
		this.graph.paint();
		this.writeHash();
		this.say(this.state.flame ? 'Flame: root at the bottom' : 'Icicle: root at the top');
	}

	showTab(table) {
		this.state.table = table;
		this.syncControls();
		this.hideTooltip();
		if (table)
			this.fillTable();
		this.writeHash();
	}

	/* ---- search ------------------------------------------------------------------------------------ */

	search(query) {
		const g = this.graph;
		let result = '';

		this.state.query = query;
		g.matches = null;
		this.found = null;
		if (query !== '') {
			try {
				g.matches = matchFunctions(this.p, query);
			} catch {
				result = 'no valid expression';
			}
		}
		if (g.matches !== null) {
			const { weight, tops } = this.view.search(this.zoom, g.matches);
			this.found = { tops, nodes: null, at: -1 };
			result = weight > 0 ? formatShare(weight, this.zoom.total) + ' matched (' + formatWeight(weight, this.unit) + ')' : 'no match';
		}
		if ($('search-result').textContent !== result) {
			$('search-result').textContent = result;
			if (result !== '')
				this.say(result);
		}
		this.fillTable();
		this.writeHash();
		g.paint();
	}

	nextMatch(step) {
		const f = this.found;

		if (f === null || f === undefined || f.tops.length === 0)
			return;
		if (f.nodes === null) {
			const { total } = this.view;
			const tops = f.tops.sort((a, b) => total[b] - total[a]).slice(0, 2000);
			f.nodes = [...new Set(tops.map((s) => this.view.locate(s)))].sort((a, b) => b.total - a.total);
		}
		f.at = (f.at + step + f.nodes.length) % f.nodes.length;
		this.setFocus(f.nodes[f.at]);
		this.graph.reveal(this.graph.focus.depth);
	}

	/* ---- one frame --------------------------------------------------------------------------------- */

	kindOf(node) {
		return node.fn < 0 ? null : this.p.kind(node.fn);
	}

	nameOf(node) {
		return node.fn < 0 ? this.rootLabel() : this.p.name(node.fn);
	}

	frameText(node) {
		const kind = this.kindOf(node), whole = this.view.root.total;
		return this.nameOf(node) + (kind === null ? '' : ', ' + kind.long) + ', total ' + formatShare(node.total, whole) +
			', self ' + formatShare(this.view.selfOf(node), whole);
	}

	/* Both the tooltip and the panel below the graph. */
	describe(node, columns) {
		const { view, p } = this, kind = this.kindOf(node), whole = view.root.total, self = view.selfOf(node);
		const share = (w) => el('b', {}, formatWeight(w, this.unit)).textContent + ' · ' + formatShare(w, whole);
		const lines = node.fn < 0 ? [] : view.lines(node);
		const path = node.fn < 0 ? '' : p.path(node.fn), library = node.fn < 0 ? '' : p.library(node.fn);
		const flags = lines.reduce((all, l) => all | l.flags, 0);
		const first = lines.find((l) => l.line > 0);
		const zoom = this.zoom, zoomed = zoom.depth > 0 && node.depth > zoom.depth ? ' · ' + formatShare(node.total, zoom.total) + ' of the zoom' : '';
		const about = el('div', { class: 'frame' },
			el(columns ? 'h2' : 'p', { class: 'frame-name' }, this.nameOf(node)),
			kind === null ? null : el('p', {}, el('span', { class: 'swatch ' + kind.id, 'aria-hidden': 'true' }), kind.long,
				(flags & 1) !== 0 ? ', inlined' : ''),
			el('p', { class: 'shares' }, 'Total ' + share(node.total) + zoomed + '   |   Self ' + share(self)),
			el('p', { class: 'soft' }, formatNumber(node.samples) + (node.samples === 1 ? ' sample' : ' samples')),
			path === '' ? null : el('p', { class: 'place' }, path + (first === undefined ? '' : ':' + first.line)),
			library === '' ? null : el('p', { class: 'library soft' }, library));
		if (lines.length === 0 || first === undefined)
			return [about];
		const rows = lines.slice(0, 5).map((l) => el('tr', {}, el('td', { class: 'number' }, l.line > 0 ? ':' + l.line : 'unknown'),
			el('td', { class: 'number' }, formatWeight(l.total, this.unit)), el('td', { class: 'number' }, formatShare(l.total, node.total))));
		return [about, el('table', { class: 'lines' }, el('caption', {}, (lines.length > 5 ? 'Top 5 of ' + lines.length + ' lines' : 'Lines') +
			((flags & 2) !== 0 ? ' (approximate in JIT code)' : '')), el('tbody', {}, ...rows))];
	}

	setFocus(node) {
		this.graph.focus = node;
		$('details').replaceChildren(...this.describe(node, true));
		this.fillTreeItems(node);
		this.graph.paint();
	}

	/* What a screen reader walks: the focused frame among its callers, siblings and callees. */
	fillTreeItems(node) {
		const items = [], callers = [];
		const item = (n, siblings, at) => {
			const e = el('div', {
				role: 'treeitem', 'aria-level': n.depth + 1, 'aria-setsize': siblings, 'aria-posinset': at + 1,
				'aria-selected': n === node ? 'true' : 'false', id: n === node ? 'tree-focus' : null,
				'aria-expanded': this.view.children(n).length > 0 ? (n.depth <= node.depth && node !== n ? 'true' : n === node ? 'true' : 'false') : null,
			}, this.frameText(n));
			items.push(e);
		};
		for (let n = node.parent; n !== null; n = n.parent)
			callers.unshift(n);
		for (const n of callers.slice(-30)) {
			const s = n.parent === null ? [n] : this.view.children(n.parent);
			item(n, s.length, s.indexOf(n));
		}
		const siblings = node.parent === null ? [node] : this.view.children(node.parent), at = siblings.indexOf(node);
		const from = Math.max(0, at - 5);
		siblings.slice(from, at + 6).forEach((n, i) => {
			item(n, siblings.length, from + i);
			if (n === node) {
				const callees = this.view.children(node);
				callees.slice(0, 10).forEach((c, j) => item(c, callees.length, j));
			}
		});
		$('tree-items').replaceChildren(...items);
		$('graph-area').setAttribute('aria-activedescendant', 'tree-focus');
	}

	say(text) {
		$('live').textContent = text;
	}

	showTooltip(node, x, y) {
		const t = $('tooltip');

		if (this.tooltipFor !== node) {
			t.replaceChildren(...this.describe(node, false));
			this.tooltipFor = node;
		}
		t.hidden = false;
		const r = t.getBoundingClientRect();
		t.style.left = Math.max(4, Math.min(x + 14, innerWidth - r.width - 8)) + 'px';
		t.style.top = Math.max(4, y + 18 + r.height < innerHeight ? y + 18 : y - r.height - 12) + 'px';
	}

	hideTooltip() {
		$('tooltip').hidden = true;
		this.tooltipFor = null;
		if (this.graph.hover !== null) {
			this.graph.hover = null;
			this.graph.paint();
		}
	}

	/* ---- mouse and keys ---------------------------------------------------------------------------- */

	bindGraph() {
		const g = this.graph, at = (e) => {
			const r = g.scroller.getBoundingClientRect();
			return g.boxAt(e.clientX - r.left, e.clientY - r.top);
		};

		g.scroller.addEventListener('mousemove', (e) => {
			const box = at(e), node = box === null ? null : box.node;
			g.scroller.style.cursor = node === null ? 'default' : 'pointer';
			if (node === null) {
				this.hideTooltip();
				return;
			}
			if (g.hover !== node) {
				g.hover = node;
				g.paint();
			}
			this.showTooltip(node, e.clientX, e.clientY);
		});
		g.scroller.addEventListener('mouseleave', () => this.hideTooltip());
		g.scroller.addEventListener('scroll', () => this.hideTooltip());
		g.scroller.addEventListener('click', (e) => {
			const box = at(e);
			$('graph-area').focus({ preventScroll: true });
			if (box === null)
				return;
			this.hideTooltip();
			/* Too small to draw: their caller at full width makes them larger. */
			this.zoomTo(box.node === null ? box.parent : box.node);
		});
		$('graph-area').addEventListener('focus', () => {
			g.active = true;
			g.paint();
		});
		$('graph-area').addEventListener('blur', () => {
			g.active = false;
			g.paint();
		});
		$('graph-area').addEventListener('keydown', (e) => this.onGraphKey(e));
	}

	onGraphKey(e) {
		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		const node = this.graph.focus, siblings = node.parent === null ? [node] : this.view.children(node.parent);
		const at = siblings.indexOf(node), inward = this.state.flame ? 'ArrowUp' : 'ArrowDown';
		let next = null;

		switch (e.key) {
		case 'ArrowLeft': next = siblings[at - 1]; break;
		case 'ArrowRight': next = siblings[at + 1]; break;
		case 'Home': next = siblings[0]; break;
		case 'End': next = siblings[siblings.length - 1]; break;
		case 'ArrowUp':
		case 'ArrowDown': next = e.key === inward ? this.view.children(node)[0] : node.parent; break;
		case 'Enter':
		case ' ': this.zoomTo(node); e.preventDefault(); return;
		default: return;
		}
		e.preventDefault();
		if (!next)
			return;
		this.hideTooltip();
		this.setFocus(next);
		this.graph.reveal(next.depth);
	}

	bindKeys() {
		addEventListener('keydown', (e) => {
			const typing = e.target instanceof HTMLInputElement && e.target.type === 'search';
			if (e.ctrlKey || e.metaKey || e.altKey || typing || $('help').open)
				return;
			if (e.target instanceof HTMLSelectElement)
				return; /* letters choose an option there */
			switch (e.key) {
			case '/': $('search').focus(); $('search').select(); break;
			case 'Escape':
				if (!$('tooltip').hidden) {
					this.hideTooltip();
					break;
				}
				/* falls through */
			case 'Backspace': this.zoomOut(); break;
			case '0': this.zoomReset(); break;
			case 'n': this.nextMatch(1); break;
			case 'N': this.nextMatch(-1); break;
			case 'i': this.turn(); break;
			case 't': this.showTab(!this.state.table); $(this.state.table ? 'tab-table' : 'graph-area').focus(); break;
			case '?': $('help').showModal(); break;
			default: return;
			}
			e.preventDefault();
		});
	}

	/* ---- table ------------------------------------------------------------------------------------- */

	fillTable() {
		if (!this.state.table)
			return;
		const { p, view } = this, zoom = this.zoom, whole = zoom.total;
		const { sumTotal, sumSelf } = view.functions(zoom), m = this.graph.matches, list = [];
		const place = (f) => p.path(f) || p.library(f);
		const by = {
			self: (a, b) => sumSelf[a] - sumSelf[b] || sumTotal[a] - sumTotal[b],
			total: (a, b) => sumTotal[a] - sumTotal[b] || sumSelf[a] - sumSelf[b],
			kind: (a, b) => p.functionKind[a] - p.functionKind[b] || sumSelf[b] - sumSelf[a],
			name: (a, b) => (p.name(a) < p.name(b) ? -1 : p.name(a) > p.name(b) ? 1 : 0),
			place: (a, b) => (place(a) < place(b) ? -1 : place(a) > place(b) ? 1 : 0),
		}[this.sort.key];

		for (let f = 0; f < sumTotal.length; f++)
			if (sumTotal[f] > 0 && (m === null || m[f] === 1))
				list.push(f);
		list.sort((a, b) => (this.sort.down ? by(b, a) : by(a, b)) || a - b);
		const cell = (w) => [el('td', { class: 'number' }, formatWeight(w, this.unit) + ' · ' + formatShare(w, whole))];
		const rows = list.slice(0, this.tableRows).map((f) => {
			const kind = p.kind(f), show = el('button', { type: 'button', title: 'Show in the graph' }, p.name(f));
			show.addEventListener('click', () => this.showFunction(f));
			return el('tr', {}, ...cell(sumSelf[f]), ...cell(sumTotal[f]),
				el('td', { class: 'kind' }, el('span', { class: 'swatch ' + kind.id, 'aria-hidden': 'true' }), kind.label),
				el('th', { scope: 'row' }, show), el('td', { class: 'place' }, place(f)));
		});
		$('table').tBodies[0].replaceChildren(...rows);
		$('table-caption').textContent = 'Hottest frames: ' + formatNumber(rows.length) + ' of ' + formatNumber(list.length) +
			(m === null ? '' : ' that match the search') + ', in ' + this.nameOf(zoom) + '. Recursion is counted once in a total.';
		$('table-more').hidden = rows.length >= list.length;
		for (const th of $('table').querySelectorAll('th[data-sort]')) {
			if (th.dataset.sort === this.sort.key)
				th.setAttribute('aria-sort', this.sort.down ? 'descending' : 'ascending');
			else
				th.removeAttribute('aria-sort');
		}
	}

	/* The heaviest place of a function in the graph. */
	showFunction(f) {
		const matches = new Uint8Array(this.p.nrFunctions);

		matches[f] = 1;
		const { tops } = this.view.search(this.zoom, matches), { total } = this.view;
		if (tops.length === 0)
			return;
		this.showTab(false);
		this.setFocus(this.view.locate(tops.reduce((a, b) => (total[b] > total[a] ? b : a))));
		this.graph.layout();
		this.graph.reveal(this.graph.focus.depth);
		$('graph-area').focus();
	}

	/* ---- the address ------------------------------------------------------------------------------- */

	writeHash() {
		const s = this.state, h = new URLSearchParams(), path = [];

		if (this.data.triggers.length > 1 && s.trigger !== this.data.select.trigger)
			h.set('trigger', this.data.triggers[s.trigger].name);
		if (s.thread !== this.data.select.thread)
			h.set('thread', s.thread);
		if (!PRESETS.default.kinds.every((k) => s.kinds.has(k)))
			h.set('kinds', KINDS.filter((_, i) => s.kinds.has(i)).map((k) => k.id).join(' '));
		const folds = ['vm', 'startup'].filter((k) => s[k]);
		if (folds.length > 0)
			h.set('unfold', folds.join(' '));
		if (s.query !== '')
			h.set('search', s.query);
		if (s.flame)
			h.set('layout', 'flame');
		if (s.table)
			h.set('tab', 'table');
		for (let n = this.zoom; n.depth > 0; n = n.parent)
			path.unshift(n.fn.toString(36));
		if (path.length > 0)
			h.set('zoom', path.join('.'));
		const text = h.toString();
		if (text !== this.hash) {
			this.hash = text;
			history.replaceState(null, '', '#' + text);
		}
	}

	applyHash() {
		const text = location.hash.slice(1), s = this.state, { data } = this;

		if (text === this.hash)
			return;
		const h = new URLSearchParams(text), trigger = data.triggers.findIndex((t) => t.name === h.get('trigger'));
		const scope = /^([tp])(\d+)$/.exec(h.get('thread') || '');
		const known = scope !== null && Number(scope[2]) < (scope[1] === 't' ? data.threads : data.processes).length;
		const words = (key) => h.get(key).split(' ');
		s.trigger = trigger >= 0 ? trigger : data.select.trigger;
		s.thread = known || h.get('thread') === 'all' ? h.get('thread') : data.select.thread;
		s.kinds = new Set(h.has('kinds') ? words('kinds').filter((k) => k in KIND).map((k) => KIND[k]) : PRESETS.default.kinds);
		s.vm = h.has('unfold') && words('unfold').includes('vm');
		s.startup = h.has('unfold') && words('unfold').includes('startup');
		s.flame = h.get('layout') === 'flame';
		s.table = h.get('tab') === 'table';
		s.query = $('search').value = h.get('search') || '';
		this.hash = text;
		this.trail = [];
		this.graph.focus = null;
		this.view.weigh(s.trigger, this.scopeAccepts(s.thread));
		this.view.show(s);
		if (h.has('zoom'))
			this.pushZoom(this.view.follow(h.get('zoom').split('.').map((f) => parseInt(f, 36))));
		this.fillThreads();
		this.install(this.zoom);
	}
}

/* For the console and for tests: the page's own object. */
window.rprof = new Page(JSON.parse($('profile').textContent));
