/* The picture: frames of a view on a canvas, and which frame is where. */
const ROW = 21; /* CSS pixels from one row to the next */
const GAP = 1;
const MIN_WIDTH = 1; /* narrower frames are drawn together as one grey box */
const TEXT_PAD = 6;
const ZOOM_MS = 160;

class Graph {
	/* canvas stands in scroller, which also holds spacer: as high as all rows are. */
	constructor(canvas, scroller, spacer) {
		this.canvas = canvas;
		this.scroller = scroller;
		this.spacer = spacer;
		this.ctx = canvas.getContext('2d');
		this.rows = [];
		this.flame = false;
		this.view = null;
		this.zoom = this.focus = this.hover = null;
		this.matches = null;
		this.active = false; /* the keyboard is here */
		this.textWidth = new Map();
		this.motion = matchMedia('(prefers-reduced-motion: reduce)');
		this.readColours();
		matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
			this.readColours();
			this.paint();
		});
		scroller.addEventListener('scroll', () => this.paint());
		new ResizeObserver(() => {
			this.layout();
			this.paint();
		}).observe(scroller);
	}

	readColours() {
		const css = getComputedStyle(document.documentElement);
		const get = (name) => css.getPropertyValue('--' + name).trim();

		this.colours = {
			kinds: KINDS.map((k) => get('kind-' + k.id)),
			text: get('on-kind'), ground: get('graph-ground'), dim: get('dim'), dimText: get('dim-text'),
			small: get('small'), ring: get('ring'), ringInner: get('ring-inner'), match: get('match'),
			root: get('root'), rootText: get('ink'), font: get('graph-font'), hatch: get('hatch'),
		};
		this.textWidth.clear();
		this.hatch = null;
	}

	setView(view, zoom) {
		this.view = view;
		this.zoom = zoom;
		this.window = { x: zoom.x, w: zoom.total || 1 };
		this.hover = null;
		this.layout();
	}

	/* Shows a node at full width, in a short movement where the user has not asked for none. */
	zoomTo(node, done) {
		const from = { ...this.window }, to = { x: node.x, w: node.total || 1 };

		this.zoom = node;
		cancelAnimationFrame(this.frameRequest);
		if (this.motion.matches) {
			this.window = to;
			this.layout();
			done();
			this.paint();
			return;
		}
		let start = null;
		const step = (now) => {
			start = start === null ? now : start;
			const t = Math.min(1, (now - start) / ZOOM_MS), ease = t * (2 - t);
			/* The left edge and the right edge move, each on its own: nothing jumps at either end. */
			const right = from.x + from.w + (to.x + to.w - from.x - from.w) * ease;
			const x = from.x + (to.x - from.x) * ease;
			this.window = t < 1 ? { x, w: right - x } : to;
			this.layout();
			if (t < 1)
				this.frameRequest = requestAnimationFrame(step);
			else
				done();
			this.paint();
		};
		this.frameRequest = requestAnimationFrame(step);
	}

	get width() {
		return this.scroller.clientWidth;
	}

	/* rows[depth] = boxes { node, x, w } from left to right; node null: frames too small to draw. */
	layout() {
		if (this.view === null || this.width === 0)
			return;
		const { x: x0, w: span } = this.window, scale = this.width / span, width = this.width;
		const rows = [[]], todo = [];

		const put = (node) => {
			const left = (node.x - x0) * scale, w = node.total * scale;
			if (left + w <= 0.01 || left >= width - 0.01)
				return true;
			if (w < MIN_WIDTH)
				return false;
			(rows[node.depth] = rows[node.depth] || []).push({
				node, x: Math.max(0, left), w: Math.min(width, left + w) - Math.max(0, left),
			});
			todo.push(node);
			return true;
		};
		put(this.view.root);
		while (todo.length > 0) {
			const node = todo.pop(), children = this.view.children(node);
			for (let i = 0; i < children.length; i++) {
				if (put(children[i]))
					continue;
				/* Heaviest first: all that follow are as small. */
				const last = children[children.length - 1];
				const left = Math.max(0, (children[i].x - x0) * scale);
				const right = Math.min(width, (last.x + last.total - x0) * scale);
				if (right - left >= 0.3)
					(rows[node.depth + 1] = rows[node.depth + 1] || []).push({
						node: null, x: left, w: right - left, hidden: children.length - i, parent: node,
					});
				break;
			}
		}
		for (const row of rows)
			row.sort((a, b) => a.x - b.x);
		this.rows = rows;
		this.spacer.style.height = this.fullHeight() + 'px';
	}

	fullHeight() {
		return Math.max(this.rows.length * ROW + 2, this.scroller.clientHeight);
	}

	rowTop(depth) {
		return this.flame ? this.fullHeight() - (depth + 1) * ROW - 1 : depth * ROW + 1;
	}

	/* Scrolls so far that a row is in sight, with some of what calls it. */
	reveal(depth) {
		const top = this.rowTop(depth), s = this.scroller, margin = Math.min(3 * ROW, s.clientHeight / 4);

		if (top - margin < s.scrollTop)
			s.scrollTop = top - margin;
		else if (top + ROW + margin > s.scrollTop + s.clientHeight)
			s.scrollTop = top + ROW + margin - s.clientHeight;
	}

	revealRoot() {
		this.scroller.scrollTop = this.flame ? this.fullHeight() : 0;
	}

	boxAt(x, y) {
		const top = y + this.scroller.scrollTop;
		const depth = Math.floor((this.flame ? this.fullHeight() - 1 - top : top - 1) / ROW);

		return (this.rows[depth] || []).find((b) => x >= b.x && x < b.x + Math.max(b.w, 1)) || null;
	}

	/* Where a node is: CSS pixels in the scroller's visible part. A node too small to draw is still somewhere. */
	boxOf(node) {
		const scale = this.width / this.window.w, left = (node.x - this.window.x) * scale;
		const x = Math.max(0, Math.min(left, this.width - 3));

		return {
			x, y: this.rowTop(node.depth) - this.scroller.scrollTop,
			w: Math.max(3, Math.min(this.width, left + node.total * scale) - x), h: ROW - GAP,
		};
	}

	hatchPattern() {
		if (this.hatch !== null)
			return this.hatch;
		const tile = document.createElement('canvas'), size = 8;
		tile.width = tile.height = size;
		const c = tile.getContext('2d');
		c.strokeStyle = this.colours.hatch;
		c.lineWidth = 2;
		c.beginPath();
		for (const o of [-size, 0, size]) {
			c.moveTo(o - 1, size + 1);
			c.lineTo(o + size + 1, -1);
		}
		c.stroke();
		return this.hatch = this.ctx.createPattern(tile, 'repeat');
	}

	/* The text, cut with an ellipsis to a width; '' when less than two letters would be left. */
	fit(text, width) {
		let w = this.textWidth.get(text);

		if (w === undefined) {
			w = this.ctx.measureText(text).width;
			this.textWidth.set(text, w);
		}
		if (w <= width)
			return text;
		let n = Math.floor((text.length * width) / w);
		while (n > 1) {
			const cut = text.slice(0, n) + '…';
			if (this.ctx.measureText(cut).width <= width)
				return cut;
			n--;
		}
		return '';
	}

	paint() {
		if (this.view === null || this.paintRequested)
			return;
		this.paintRequested = true;
		requestAnimationFrame(() => {
			this.paintRequested = false;
			this.paintNow();
		});
	}

	paintNow() {
		const dpr = devicePixelRatio || 1, width = this.width, height = this.scroller.clientHeight;
		const { ctx, colours } = this;

		if (this.canvas.width !== Math.round(width * dpr) || this.canvas.height !== Math.round(height * dpr)) {
			this.canvas.width = Math.round(width * dpr);
			this.canvas.height = Math.round(height * dpr);
			this.canvas.style.width = width + 'px';
			this.canvas.style.height = height + 'px';
		}
		ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
		ctx.fillStyle = colours.ground;
		ctx.fillRect(0, 0, width, height);
		ctx.font = colours.font;
		ctx.textBaseline = 'middle';
		for (let depth = 0; depth < this.rows.length; depth++) {
			const y = this.rowTop(depth) - this.scroller.scrollTop;
			if (y + ROW < 0 || y > height)
				continue;
			for (const box of this.rows[depth] || [])
				this.paintBox(box, y, width);
		}
		if (this.focus !== null)
			this.paintRing(this.boxOf(this.focus));
	}

	paintBox(box, y, width) {
		const { ctx, colours } = this, { node } = box;
		const w = Math.max(box.w - (box.w > 3 ? GAP : 0.2), 0.6), h = ROW - GAP;

		if (node === null) {
			ctx.fillStyle = colours.small;
			ctx.fillRect(box.x, y, w, h);
			return;
		}
		const kind = node.fn < 0 ? -1 : this.view.p.functionKind[node.fn];
		const matched = this.matches !== null && node.fn >= 0 && this.matches[node.fn] === 1;
		const dim = this.matches !== null && !matched;
		const above = node.depth < this.zoom.depth;
		ctx.globalAlpha = above ? 0.55 : 1;
		ctx.fillStyle = kind < 0 ? colours.root : dim ? colours.dim : colours.kinds[kind];
		ctx.fillRect(box.x, y, w, h);
		if (kind === KIND.mark) {
			ctx.fillStyle = this.hatchPattern();
			ctx.fillRect(box.x, y, w, h);
		}
		if (matched) {
			ctx.fillStyle = colours.match;
			ctx.fillRect(box.x, y + h - 4, w, 4);
			ctx.fillRect(box.x, y, Math.min(4, w), h);
		}
		ctx.globalAlpha = 1;
		if (node === this.hover) {
			ctx.strokeStyle = colours.ring;
			ctx.lineWidth = 1;
			ctx.strokeRect(box.x + 0.5, y + 0.5, Math.max(w - 1, 1), h - 1);
		}
		const pad = matched ? TEXT_PAD + 3 : TEXT_PAD;
		if (w < 2 * pad + 18)
			return;
		const label = this.fit(node.fn < 0 ? this.rootLabel : this.view.p.name(node.fn), w - 2 * pad);
		if (label === '')
			return;
		if (kind === KIND.mark) {
			/* A plain ground under the text: hatching would make it hard to read. */
			ctx.fillStyle = colours.kinds[kind];
			ctx.fillRect(box.x + 2, y + 2, Math.min(ctx.measureText(label).width + 2 * pad - 4, w - 4), h - 4);
		}
		ctx.fillStyle = kind < 0 ? colours.rootText : dim ? colours.dimText : colours.text;
		ctx.fillText(label, box.x + pad, y + h / 2 + 0.5);
	}

	paintRing(b) {
		const { ctx, colours } = this;

		const wide = this.active ? 2.5 : 1.5;
		ctx.lineWidth = wide;
		ctx.strokeStyle = colours.ring;
		ctx.strokeRect(b.x + wide / 2, b.y + wide / 2, Math.max(b.w - wide - GAP, 1), b.h - wide);
		/* A second line, so that the ring shows on any colour. */
		if (b.w > 12) {
			ctx.lineWidth = 1;
			ctx.strokeStyle = colours.ringInner;
			ctx.strokeRect(b.x + wide + 0.5, b.y + wide + 0.5, b.w - 2 * wide - 1 - GAP, b.h - 2 * wide - 1);
		}
	}
}
