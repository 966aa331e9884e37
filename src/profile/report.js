/* Draws the report of the summaries that are in the page. Names in them become text nodes only. */
'use strict';
(function () {
  const profiles = Array.from(document.querySelectorAll('script.profile')).map(function (node) {
    const data = JSON.parse(node.textContent);
    data.folder = node.dataset.name;
    return data;
  });
  const main = document.getElementById('main');
  const causes = {
    pipeline: ['pipeline', 'what a device needs is not made yet, or has no free place: bubbles and uneven stages'],
    link: ['messages', 'a message was on its way'],
    cores: ['no free core', 'a device could have worked, and all workers were busy'],
    transfers: ['loads and stores', 'remote memory was not there yet'],
    replicas: ['other replicas', 'others had not come to a sum'],
    data: ['data', 'the loader had no batch ready'],
    host: ['host', 'the program was elsewhere between two runs']
  };
  const kindNames = { F: 'forward', R: 'recompute', B: 'backward', W: 'weight gradient', U: 'update', SEND: 'send', RECEIVE: 'receive',
    LOAD: 'load', STORE: 'store', GATHER: 'gather', REDUCE: 'reduce', HOST_IN: 'host in', HOST_OUT: 'host out' };
  const memoryClasses = ['weights', 'gradients', 'state', 'window', 'stream', 'stash', 'transient'];
  const memoryColors = { weights: '--F', gradients: '--W', state: '--R', window: '--host', stream: '--comm', stash: '--B', transient: '--U' };

  /* ---- small helpers ---- */

  function make(tag, attributes, children) {
    const node = document.createElement(tag);
    Object.entries(attributes || {}).forEach(function (pair) {
      if (pair[0] === 'class') node.className = pair[1];
      else if (pair[0].startsWith('on')) node.addEventListener(pair[0].slice(2), pair[1]);
      else if (pair[0] === 'style') node.style.cssText = pair[1];
      else node.setAttribute(pair[0], pair[1]);
    });
    [].concat(children === undefined ? [] : children).forEach(function (child) {
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    });
    return node;
  }
  function number(value) { return typeof value === 'number' && isFinite(value) ? value : 0; }
  function list(value) { return Array.isArray(value) ? value : []; }
  function record(value) { return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {}; }
  function scaled(value, units, base) {
    let at = 0;
    value = number(value);
    while (Math.abs(value) >= base && at + 1 < units.length) { value /= base; at++; }
    return (Math.abs(value) >= 100 || value === Math.round(value) ? value.toFixed(0) : value.toPrecision(3)) + '\u00a0' + units[at];
  }
  function time(ns) { return scaled(ns, ['ns', 'µs', 'ms', 's'], 1000); }
  function bytes(value) { return scaled(value, ['B', 'kB', 'MB', 'GB', 'TB'], 1000); }
  function count(value) { return scaled(value, ['', 'k', 'M', 'G', 'T'], 1000).trim(); }
  function percent(value) { return (100 * number(value)).toFixed(1) + ' %'; }
  function share(part, all) { return number(all) > 0 ? number(part) / number(all) : 0; }
  function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  const redraws = [];
  function redrawAll() { redraws.forEach(function (draw) { draw(); }); }

  /* Columns: [title, value(row), shown(row, value), class]. A head sorts by its column. */
  function table(caption, columns, rows, more) {
    const body = make('tbody');
    let order = rows.slice(), sorted = -1, down = true;
    function fill() {
      body.replaceChildren.apply(body, order.slice(0, 400).map(function (row) {
        return make('tr', {}, columns.map(function (column) {
          const shown = column[2] ? column[2](row, column[1](row)) : column[1](row);
          return make('td', { class: column[3] || '' }, shown);
        }));
      }));
    }
    const heads = columns.map(function (column, index) {
      const head = make('th', { scope: 'col', class: column[3] || '' });
      head.append(make('button', { type: 'button', onclick: function () {
        down = sorted === index ? !down : true;
        sorted = index;
        order.sort(function (a, b) {
          const x = column[1](a), y = column[1](b);
          return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
        });
        heads.forEach(function (other) { other.removeAttribute('aria-sort'); });
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        fill();
      } }, column[0]));
      return head;
    });
    fill();
    const node = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
      make('table', {}, [make('caption', {}, caption + (more ? ' ' + more : '')), make('thead', {}, make('tr', {}, heads)), body]));
    node.showOnly = function (keep) { order = rows.filter(keep); sorted = -1; fill(); };
    return node;
  }

  /* ---- summary and insights ---- */

  function card(value, what) { return make('li', {}, [make('b', {}, value), make('span', {}, what)]); }

  function summary(p) {
    const c = record(p.configuration), r = record(p.rates), m = record(p.machine), t = record(p.time), rec = record(p.recorded);
    const lost = record(t.lost_ns), node = make('div');
    node.append(make('ul', { class: 'cards' }, [
      card(count(r.samples_per_s) + '/s', String(p.samples || 'samples')),
      card(count(r.flops_per_s) + 'FLOP/s', percent(share(r.flops_per_s, m.flops_per_s)) + ' of ' + count(m.flops_per_s) + 'FLOP/s at best on ' + number(m.workers) + ' cores'),
      card(percent(t.bubble_share), 'bubble: devices wait in the pipeline'),
      card(percent(share(t.busy_ns, t.all_ns)), 'of device time is work'),
      card(String(number(c.stages)) + ' / ' + number(c.devices), 'stages / devices, ' + String(c.schedule || '')),
      card(time(share(rec.wall_ns, rec.steps)), 'a step of ' + number(c.micro_batches_per_step) + ' micro-batches')
    ]));
    const stack = make('div', { class: 'stack', role: 'img', 'aria-label': 'Device time by cause' });
    const legend = make('ul', { class: 'legend' });
    [['work', number(t.busy_ns), '--F', 'actions of devices']].concat(Object.keys(causes).map(function (key, i) {
      return [causes[key][0], number(lost[key]), ['--U', '--comm', '--B', '--host', '--R', '--W', '--mark'][i], causes[key][1]];
    })).forEach(function (row) {
      if (share(row[1], t.all_ns) < 0.0005) return;
      stack.append(make('i', { style: 'width:' + 100 * share(row[1], t.all_ns) + '%;background:var(' + row[2] + ')', title: row[0] + ' ' + percent(share(row[1], t.all_ns)) }));
      legend.append(make('li', { title: row[3] }, [make('i', { style: 'background:var(' + row[2] + ')' }), (row[0] === 'work' ? '' : 'waiting: ') + row[0] + ' ' + percent(share(row[1], t.all_ns))]));
    });
    node.append(make('h3', {}, 'Where device time goes'), stack, legend);
    node.append(make('p', { class: 'note' }, 'Totals are of ' + number(rec.steps) + ' steps in ' + number(rec.runs) + ' runs. Waiting, cores, memory and timeline are of the last ' +
      number(rec.window_steps) + ' steps (' + time(rec.window_ns) + '); ' + count(rec.events_dropped) + ' of ' + count(rec.events) +
      ' older events were not kept. Calls are timed in the first 16 steps and one of 8 later.'));
    return node;
  }

  function insights(p) {
    const found = list(p.insights);
    if (found.length === 0) return make('p', {}, 'Nothing that would gain 2 % or more was found.');
    return make('ol', { class: 'insights' }, found.map(function (insight) {
      const tags = [];
      if (number(insight.gain) > 0) tags.push('throughput +' + percent(insight.gain) + ' predicted');
      if (number(insight.bytes) > 0) tags.push('saves about ' + bytes(insight.bytes));
      if (number(insight.cost) > 0) tags.push('costs ' + percent(insight.cost) + ' of throughput');
      const item = make('li', {}, [String(insight.text || '')]);
      if (insight.option) item.append(make('div', {}, [make('code', {}, String(insight.option))]));
      if (tags.length) item.append(make('div', { class: 'tags' }, tags.join('; ')));
      return item;
    }));
  }

  /* ---- timeline ---- */

  function kindColor(kind) {
    return 'FBWRU'.includes(kind) ? css('--' + kind) : kind.startsWith('HOST') ? css('--host') : css('--comm');
  }
  function microColor(m) { return 'hsl(' + (m * 137.5) % 360 + ' 55% ' + (isDark() ? 62 : 48) + '%)'; }
  function isDark() { return css('--back') !== '#ffffff'; }

  function timeline(p) {
    const t = record(p.timeline), kinds = list(t.kinds).map(String), devices = list(p.devices).map(record);
    const span = Math.max(1, number(t.span_ns)), node = make('div');
    function read(row, lane) {
      row = list(row).map(number);
      return { slot: row[0], kind: kinds[row[1]] || '?', stage: row[2], micro: row[3], index: row[4], step: row[5], worker: row[6], start: row[7], length: row[8], lane: lane };
    }
    const events = list(t.events).map(function (e) { return read(e, 'device'); });
    const beside = list(t.beside).map(function (e) { return read(e, 'beside'); });
    const helps = list(t.helps).map(function (e) { return read(e, 'help'); });
    const tracks = [], byKey = {};
    function track(key, name) {
      if (!byKey[key]) { byKey[key] = { name: name, spans: [] }; tracks.push(byKey[key]); }
      return byKey[key].spans;
    }
    const ranks = number(record(p.configuration).ranks) > 1, replicas = number(record(p.configuration).replicas) > 1;
    devices.forEach(function (d, i) {
      track('d' + i, 'device ' + number(d.device) + (replicas ? ', replica ' + number(d.replica) : '') + (ranks ? ' (rank ' + number(d.rank) + ')' : ''));
    });
    events.forEach(function (e) { if (byKey['d' + e.slot]) byKey['d' + e.slot].spans.push(e); });
    beside.forEach(function (e) { track('b' + e.slot, 'device ' + e.slot + ': loads, stores, sums beside').push(e); });
    list(p.cores).map(record).forEach(function (c) { track('c' + number(c.rank) + '.' + number(c.worker), 'core ' + number(c.worker) + (ranks ? ', rank ' + number(c.rank) : '')); });
    events.concat(beside, helps).forEach(function (e) {
      const key = 'c' + number(record(devices[e.slot]).rank) + '.' + e.worker;
      if (byKey[key]) byKey[key].spans.push(e.lane === 'device' ? e : Object.assign({ help: e.lane === 'help' }, e));
    });
    if (list(t.runs).length) {
      const runs = track('runs', 'runs of the program');
      list(t.runs).map(list).forEach(function (r, i) { runs.push({ kind: 'run', run: i, start: number(r[0]), length: number(r[1]) - number(r[0]), lane: 'run', micro: 0, stage: 0 }); });
    }
    /* The simulated step below the last measured one, on the same scale and from the same moment. */
    const lastStep = events.reduce(function (most, e) { return Math.max(most, e.step); }, 0);
    const lastEvents = events.filter(function (e) { return e.step === lastStep; });
    const lastStart = lastEvents.reduce(function (least, e) { return Math.min(least, e.start); }, lastEvents.length ? Infinity : 0);
    const lastEnd = lastEvents.reduce(function (most, e) { return Math.max(most, e.start + e.length); }, lastStart + 1);
    list(p.simulated).forEach(function (row) {
      row = list(row).map(number);
      track('s' + row[0], 'simulated: device ' + row[0]).push({ slot: row[0], kind: kinds[row[1]] || '?', stage: row[2], micro: row[3], index: 0, step: 0, worker: -1, start: lastStart + row[4], length: row[5], lane: 'simulated' });
    });
    tracks.forEach(function (tr) { tr.spans.sort(function (a, b) { return a.start - b.start; }); });

    const labelWidth = 190, rowHeight = 26, axis = 24;
    const height = axis + tracks.length * rowHeight + 4;
    const canvas = make('canvas', { tabindex: '0', role: 'application', 'aria-label': 'Timeline of devices, cores and messages. Left and right move, plus and minus zoom, up and down choose a row, comma and full stop the action before and after, Enter shows its ops.', style: 'height:' + height + 'px' });
    const detail = make('div', { class: 'detail', role: 'status', 'aria-live': 'polite' }, 'The last step is shown; All shows the window. Choose an action: click it, or use the keys. Its ops and their times appear here.');
    const state = { from: Math.max(0, lastStart - 0.02 * (lastEnd - lastStart)), to: Math.min(span, lastEnd + 0.02 * (lastEnd - lastStart)), row: 0, chosen: null, color: 'kind', search: '' };
    let width = 800;

    function matches(e) {
      if (!state.search) return true;
      return describe(e).toLowerCase().includes(state.search);
    }
    function describe(e) {
      if (e.kind === 'run') return 'run ' + e.run;
      const about = 'FBWR'.includes(e.kind) || e.kind.startsWith('HOST') ? ' micro-batch ' + e.micro : e.kind === 'SEND' || e.kind === 'RECEIVE' ? ' edge ' + e.index + ' micro-batch ' + e.micro : '';
      return (e.help ? 'help with ' : '') + e.kind + ' ' + (kindNames[e.kind] || e.kind) + about + ' stage ' + e.stage + (e.lane === 'simulated' ? ' simulated' : ' step ' + e.step);
    }
    function color(e) {
      if (e.kind === 'run') return css('--idle');
      return state.color === 'micro' && 'FBWR'.includes(e.kind) ? microColor(e.micro) : kindColor(e.kind);
    }
    function x(ns) { return labelWidth + (ns - state.from) / (state.to - state.from) * (width - labelWidth); }
    function draw() {
      const ratio = window.devicePixelRatio || 1, g = canvas.getContext('2d');
      width = Math.max(300, canvas.clientWidth || 800);
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.fillStyle = css('--back');
      g.fillRect(0, 0, width, height);
      g.font = '13px system-ui, sans-serif';
      g.textBaseline = 'middle';
      const step = Math.pow(10, Math.floor(Math.log10((state.to - state.from) / 4)));
      const nice = [1, 2, 5, 10].map(function (k) { return k * step; }).find(function (s) { return (state.to - state.from) / s <= 9; }) || step * 10;
      const first = Math.ceil(state.from / nice) * nice;
      for (let at = first; at <= state.to; at += nice) {
        g.fillStyle = css('--grid');
        g.fillRect(x(at), axis, 1, height);
        g.fillStyle = css('--quiet');
        g.fillText(at === first ? time(at) : '+' + time(at - first), Math.min(x(at) + 3, width - 60), axis / 2);
      }
      tracks.forEach(function (tr, row) {
        const top = axis + row * rowHeight;
        if (row === state.row && document.activeElement === canvas) {
          g.fillStyle = css('--idle');
          g.fillRect(0, top, width, rowHeight);
        }
        g.save();
        g.beginPath();
        g.rect(labelWidth, 0, width - labelWidth, height);
        g.clip();
        let last = -1;
        tr.spans.forEach(function (e) {
          if (e.start + e.length < state.from || e.start > state.to) return;
          const left = x(e.start), right = x(e.start + e.length);
          if (right < last + 0.4 && e !== state.chosen) return;
          last = right;
          g.globalAlpha = matches(e) ? (e.help ? 0.55 : 1) : 0.15;
          g.fillStyle = color(e);
          g.fillRect(left, top + 3, Math.max(0.8, right - left), rowHeight - 6);
          if (right - left > 5) {
            g.strokeStyle = css('--back');
            g.lineWidth = 1;
            g.strokeRect(left + 0.5, top + 3.5, right - left - 1, rowHeight - 7);
          }
          const text = e.kind === 'run' ? 'run' : e.kind.length > 1 ? e.kind.toLowerCase() : e.kind + ('FBWR'.includes(e.kind) ? e.micro : '');
          if (right - left > 7.5 * text.length + 4) {
            g.fillStyle = e.kind === 'run' ? css('--quiet') : isDark() ? '#0b1015' : '#ffffff';
            g.fillText(text, Math.max(left, labelWidth) + 4, top + rowHeight / 2 + 1);
          }
          g.globalAlpha = 1;
          if (e === state.chosen) {
            g.strokeStyle = css('--text');
            g.lineWidth = 2.5;
            g.strokeRect(left, top + 2, Math.max(3, right - left), rowHeight - 4);
          }
        });
        g.restore();
        g.fillStyle = css('--text');
        g.fillText(tr.name.length > 27 ? tr.name.slice(0, 26) + '…' : tr.name, 6, top + rowHeight / 2, labelWidth - 10);
      });
    }
    function zoom(factor, center) {
      const middle = center === undefined ? (state.from + state.to) / 2 : center;
      const wide = Math.min(span, Math.max(100, (state.to - state.from) * factor));
      const part = (middle - state.from) / (state.to - state.from);
      state.from = Math.max(0, Math.min(span - wide, middle - part * wide));
      state.to = state.from + wide;
      draw();
    }
    function pan(part) {
      const wide = state.to - state.from;
      state.from = Math.max(0, Math.min(span - wide, state.from + part * wide));
      state.to = state.from + wide;
      draw();
    }
    function choose(e) {
      state.chosen = e;
      if (e) {
        show(e);
        if (e.start > state.to || e.start + e.length < state.from) {
          const wide = state.to - state.from;
          state.from = Math.max(0, Math.min(span - wide, e.start - wide / 3));
          state.to = state.from + wide;
        }
      }
      draw();
    }
    function show(e) {
      const ops = list(p.ops).map(record).filter(function (op) { return op.pass === e.kind && op.stage === e.stage; });
      const all = ops.reduce(function (sum, op) { return sum + number(op.mean_ns); }, 0);
      detail.replaceChildren(make('h3', {}, describe(e)), make('p', {}, 'From ' + time(e.start) + ', for ' + time(e.length) +
        (e.lane === 'simulated' ? ' by the simulator, with measured costs and a core for each device' : e.worker >= 0 ? ', on core ' + e.worker : '') + '.'));
      if (e.kind === 'SEND' || e.kind === 'RECEIVE') {
        const edge = record(list(p.edges)[e.index]);
        detail.append(make('p', {}, 'Message of ' + bytes(edge.bytes) + ' from device ' + number(edge.from) + ' to ' + number(edge.to) + ': ' + String(edge.value || '') + (edge.block ? ' of ' + edge.block : '')));
      }
      if (ops.length)
        detail.append(table('Ops of this pass, in their order: mean time of a call', [
          ['op', function (o) { return String(o.name); }, null, 'text'], ['block', function (o) { return String(o.block); }, null, 'text'],
          ['kernel', function (o) { return String(o.kernel); }, null, 'text'],
          ['time', function (o) { return number(o.mean_ns); }, function (o, v) { return time(v); }],
          ['share', function (o) { return share(o.mean_ns, all); }, function (o, v) { return percent(v); }],
          ['least', function (o) { return number(o.least_ns); }, function (o, v) { return time(v); }],
          ['most', function (o) { return number(o.most_ns); }, function (o, v) { return time(v); }]
        ], ops));
    }
    function at(event) {
      const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
      const row = Math.floor((py - axis) / rowHeight), ns = state.from + (px - labelWidth) / (width - labelWidth) * (state.to - state.from);
      return { row: row, ns: ns };
    }
    function find(place) {
      const tr = tracks[place.row], slack = (state.to - state.from) / (width - labelWidth) * 2;
      if (!tr) return null;
      let best = null;
      tr.spans.forEach(function (e) {
        if (place.ns >= e.start - slack && place.ns <= e.start + e.length + slack && (!best || e.length < best.length || best.kind === 'run')) best = e;
      });
      return best;
    }
    let drag = null;
    canvas.addEventListener('wheel', function (event) {
      if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) < Math.abs(event.deltaY) && !event.altKey && document.activeElement !== canvas) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / 800);
      else zoom(Math.exp(event.deltaY / 400), at(event).ns);
    }, { passive: false });
    canvas.addEventListener('pointerdown', function (event) { drag = { x: event.clientX, from: state.from, moved: false }; });
    canvas.addEventListener('pointermove', function (event) {
      if (drag && event.buttons) {
        const wide = state.to - state.from;
        if (Math.abs(event.clientX - drag.x) > 3) drag.moved = true;
        state.from = Math.max(0, Math.min(span - wide, drag.from - (event.clientX - drag.x) / (width - labelWidth) * wide));
        state.to = state.from + wide;
        draw();
        return;
      }
      const e = find(at(event));
      canvas.title = e ? describe(e) + ', ' + time(e.length) : '';
    });
    canvas.addEventListener('pointerup', function (event) {
      const moved = drag && drag.moved;
      drag = null;
      if (moved) return;
      const place = at(event);
      state.row = Math.max(0, Math.min(tracks.length - 1, place.row));
      choose(find(place));
    });
    canvas.addEventListener('keydown', function (event) {
      const spans = tracks[state.row] ? tracks[state.row].spans : [];
      const key = event.key;
      if (key === '+' || key === '=') zoom(0.5, state.chosen ? state.chosen.start : undefined);
      else if (key === '-') zoom(2);
      else if (key === '0') zoom(Infinity);
      else if (key === 'ArrowLeft') pan(-0.2);
      else if (key === 'ArrowRight') pan(0.2);
      else if (key === 'ArrowUp') { state.row = Math.max(0, state.row - 1); choose(state.chosen); }
      else if (key === 'ArrowDown') { state.row = Math.min(tracks.length - 1, state.row + 1); choose(state.chosen); }
      else if (key === '.' || key === ',' || key === 'Enter') {
        const i = spans.indexOf(state.chosen);
        const next = i < 0 ? spans.findIndex(function (e) { return e.start >= state.from; }) : i + (key === ',' ? -1 : key === '.' ? 1 : 0);
        if (spans[next]) choose(spans[next]);
      } else return;
      event.preventDefault();
    });
    canvas.addEventListener('focus', draw);
    canvas.addEventListener('blur', draw);
    const found = make('span', { class: 'quiet', role: 'status' });
    const search = make('input', { type: 'search', placeholder: 'F micro-batch 3, update, send…', 'aria-label': 'Search actions', oninput: function () {
      state.search = search.value.trim().toLowerCase();
      const hits = state.search ? events.filter(matches) : [];
      found.textContent = state.search ? hits.length + ' actions' : '';
      draw();
    }, onkeydown: function (event) {
      if (event.key !== 'Enter' || !state.search) return;
      const hits = events.filter(matches).sort(function (a, b) { return a.start - b.start; });
      choose(hits[(hits.indexOf(state.chosen) + 1) % hits.length] || null);
    } });
    function button(text, label, act) { return make('button', { type: 'button', 'aria-label': label, onclick: act }, text); }
    const colors = make('select', { 'aria-label': 'Colors', onchange: function () { state.color = colors.value; draw(); } }, [
      make('option', { value: 'kind' }, 'colors by kind of work'), make('option', { value: 'micro' }, 'colors by micro-batch')]);
    node.append(make('div', { class: 'tools' }, [button('Zoom in', 'Zoom in', function () { zoom(0.5); }), button('Zoom out', 'Zoom out', function () { zoom(2); }),
      button('All', 'Show all', function () { zoom(Infinity); }),
      button('Last step', 'Show the last step', function () {
        state.from = lastStart;
        state.to = Math.max(lastStart + 100, lastEnd);
        draw();
      }), colors, search, found]));
    node.append(make('div', { class: 'canvas' }, canvas));
    node.append(make('ul', { class: 'legend' }, ['F', 'R', 'B', 'W', 'U', 'SEND', 'HOST_IN'].map(function (kind) {
      return make('li', {}, [make('i', { style: 'background:var(' + ('FBWRU'.includes(kind) ? '--' + kind : kind === 'SEND' ? '--comm' : '--host') + ')' }),
        kind === 'SEND' ? 'messages, transfers, sums' : kind === 'HOST_IN' ? 'host in and out' : kind + ' ' + kindNames[kind]]);
    }).concat([make('li', {}, 'paler on a core: parts of another device\'s call')])));
    node.append(detail);
    if (number(t.left_out) > 0) node.append(make('p', { class: 'note' }, count(t.left_out) + ' events of this window are not drawn: the report is bounded.'));
    if (list(p.simulated).length)
      node.append(make('p', { class: 'note' }, 'Simulated: one step of the same schedule with the measured costs and a core for each device takes ' + time(record(p.time).simulated_step_ns) +
        '; measured: ' + time(share(record(p.recorded).wall_ns, record(p.recorded).steps)) + '.'));
    redraws.push(draw);
    node.hooks = { state: state, tracks: tracks, zoom: zoom, choose: choose, detail: detail, canvas: canvas, x: x, rowTop: function (row) { return axis + row * rowHeight + rowHeight / 2; } };
    return node;
  }

  /* ---- memory ---- */

  function memory(p) {
    const devices = list(p.memory).map(record), node = make('div');
    if (!devices.length) return make('p', {}, 'No memory was recorded.');
    const canvas = make('canvas', { role: 'img', 'aria-label': 'Memory of a device over its last step, stacked by class', style: 'height:260px' });
    const moment = make('input', { type: 'range', min: '0', max: '1000', value: '500', 'aria-label': 'Moment in the step' });
    const shown = make('div', { class: 'detail', role: 'status', 'aria-live': 'polite' });
    const choice = make('select', { 'aria-label': 'Device' }, devices.map(function (d, i) { return make('option', { value: String(i) }, 'device ' + number(d.device) + ': ' + bytes(d.bytes)); }));
    function current() { return devices[Number(choice.value)] || {}; }
    function spans(d) {
      return list(d.spans).map(function (s) { s = list(s); return { start: number(s[0]), end: number(s[1]), bytes: number(s[2]), kind: String(s[3]), edge: number(s[4]), action: String(s[5]), micro: number(s[6]) }; });
    }
    function steps(d) {
      const changes = [], live = {}, points = [];
      memoryClasses.forEach(function (c) { live[c] = number(record(d.always)[c]); });
      spans(d).forEach(function (s) { changes.push([s.start, s.kind, s.bytes], [s.end, s.kind, -s.bytes]); });
      changes.sort(function (a, b) { return a[0] - b[0] || a[2] - b[2]; });
      points.push([0, Object.assign({}, live)]);
      changes.forEach(function (c) { live[c[1]] = (live[c[1]] || 0) + c[2]; points.push([c[0], Object.assign({}, live)]); });
      return points;
    }
    function total(live) { return memoryClasses.reduce(function (sum, c) { return sum + number(live[c]); }, 0); }
    function draw() {
      const d = current(), ratio = window.devicePixelRatio || 1, g = canvas.getContext('2d'), width = Math.max(300, canvas.clientWidth || 800), height = 260;
      const points = steps(d), left = 70, wide = width - left - 8, long = Math.max(1, number(d.span_ns));
      const peak = Math.max.apply(null, points.map(function (q) { return total(q[1]); }).concat([number(d.bytes), 1]));
      const budget = number(d.budget_bytes), top = Math.max(peak, budget > 0 && budget < 3 * peak ? budget : 0) * 1.08;
      function y(v) { return height - 22 - v / top * (height - 34); }
      function x(ns) { return left + Math.min(1, ns / long) * wide; }
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.fillStyle = css('--back');
      g.fillRect(0, 0, width, height);
      g.font = '13px system-ui, sans-serif';
      g.textBaseline = 'middle';
      for (let i = 0; i <= 4; i++) {
        g.fillStyle = css('--grid');
        g.fillRect(left, y(top * i / 4.4), wide, 1);
        g.fillStyle = css('--quiet');
        g.fillText(bytes(top * i / 4.4), 4, y(top * i / 4.4));
        g.fillText(time(long * i / 4), Math.min(x(long * i / 4), width - 60), height - 9);
      }
      points.forEach(function (q, i) {
        const end = i + 1 < points.length ? points[i + 1][0] : long;
        let sum = 0;
        memoryClasses.forEach(function (c) {
          const v = number(q[1][c]);
          if (v <= 0) return;
          g.fillStyle = css(memoryColors[c]);
          g.fillRect(x(q[0]), y(sum + v), Math.max(0.6, x(end) - x(q[0]) + 0.4), y(sum) - y(sum + v));
          sum += v;
        });
      });
      [[number(d.bytes), 'plan: ' + bytes(d.bytes), '--text'], [budget, 'budget: ' + bytes(budget), '--bad']].forEach(function (line) {
        if (line[0] <= 0 || line[0] > top) return;
        g.strokeStyle = css(line[2]);
        g.setLineDash([6, 4]);
        g.lineWidth = 1.5;
        g.beginPath();
        g.moveTo(left, y(line[0]));
        g.lineTo(left + wide, y(line[0]));
        g.stroke();
        g.setLineDash([]);
        g.fillStyle = css(line[2]);
        g.fillText(line[1], left + 6, y(line[0]) - 8);
      });
      g.strokeStyle = css('--text');
      g.lineWidth = 1.5;
      g.beginPath();
      g.moveTo(x(long * moment.value / 1000), 4);
      g.lineTo(x(long * moment.value / 1000), height - 20);
      g.stroke();
      tell();
    }
    function liveAt(ns) {
      const d = current(), live = spans(d).filter(function (s) { return s.start <= ns && ns < s.end; });
      return live.sort(function (a, b) { return b.bytes - a.bytes; });
    }
    function tell() {
      const d = current(), ns = number(d.span_ns) * moment.value / 1000, live = liveAt(ns), always = record(d.always);
      const sum = memoryClasses.reduce(function (s, c) { return s + number(always[c]); }, 0) + live.reduce(function (s, l) { return s + l.bytes; }, 0);
      shown.replaceChildren(make('h3', {}, 'At ' + time(ns) + ': ' + bytes(sum) + ' live on device ' + number(d.device)));
      shown.append(make('ul', {}, memoryClasses.filter(function (c) { return number(always[c]) > 0; }).map(function (c) { return make('li', {}, bytes(always[c]) + ' ' + c + ', all the time'); })
        .concat(live.slice(0, 30).map(function (l) {
          const edge = record(list(p.edges)[l.edge]);
          return make('li', {}, bytes(l.bytes) + ' ' + l.kind + ': ' + (l.edge >= 0 ? String(edge.value || '') + (edge.block ? ' of ' + edge.block : '') + ', micro-batch ' + l.micro : 'inside ' + l.action + ' of micro-batch ' + l.micro));
        }))));
      if (live.length > 30) shown.append(make('p', { class: 'note' }, 'and ' + (live.length - 30) + ' smaller ones'));
    }
    moment.addEventListener('input', draw);
    choice.addEventListener('change', draw);
    canvas.addEventListener('click', function (event) {
      const box = canvas.getBoundingClientRect();
      moment.value = String(Math.max(0, Math.min(1000, (event.clientX - box.left - 70) / (box.width - 78) * 1000)));
      draw();
    });
    node.append(make('div', { class: 'tools' }, [choice, make('label', {}, 'moment'), moment]), make('div', { class: 'canvas' }, canvas),
      make('ul', { class: 'legend' }, memoryClasses.map(function (c) { return make('li', {}, [make('i', { style: 'background:var(' + memoryColors[c] + ')' }), c]); })), shown);
    if (number(current().spans_left_out) > 0) node.append(make('p', { class: 'note' }, count(current().spans_left_out) + ' of this device\'s values are not drawn: the report is bounded.'));
    node.append(make('h3', {}, 'Largest tensors'), table('Largest tensors, by the memory that all their copies take', [
      ['bytes', function (t) { return number(t.bytes); }, function (t, v) { return bytes(v); }], ['device', function (t) { return number(t.device); }],
      ['class', function (t) { return String(t.class); }, null, 'text'], ['name', function (t) { return String(t.name); }, null, 'text long'],
      ['from', function (t) { return String(t.origin); }, null, 'text'], ['type', function (t) { return String(t.type); }, null, 'text']], list(p.tensors).map(record)));
    redraws.push(draw);
    node.hooks = { moment: moment, shown: shown, choice: choice, draw: draw };
    return node;
  }

  /* ---- tables ---- */

  function stages(p) {
    return table('Stages: times of a micro-batch and of a step', [
      ['stage', function (s) { return number(s.stage); }], ['device', function (s) { return number(s.device); }],
      ['blocks', function (s) { return list(s.blocks).join(', '); }, null, 'text long'],
      ['parameters', function (s) { return number(s.parameters); }, function (s, v) { return count(v); }],
      ['FLOP', function (s) { return number(s.flops); }, function (s, v) { return count(v); }],
      ['weights', function (s) { return number(s.weight_bytes); }, function (s, v) { return bytes(v); }],
      ['kept', function (s) { return number(s.stash_bytes); }, function (s, v) { return bytes(v); }],
      ['forward', function (s) { return number(s.forward_ns); }, function (s, v) { return time(v); }],
      ['recompute', function (s) { return number(s.recompute_ns); }, function (s, v) { return time(v); }],
      ['backward', function (s) { return number(s.backward_ns) + number(s.weights_ns); }, function (s, v) { return time(v); }],
      ['update', function (s) { return number(s.update_ns); }, function (s, v) { return time(v); }],
      ['step', function (s) { return number(s.step_ns); }, function (s, v) { return time(v); }],
      ['× mean', function (s) { return number(s.times_the_mean); }, function (s, v) { return make('span', { class: v > 1.15 ? 'bad' : '' }, v.toFixed(2)); }]
    ], list(p.stages).map(record));
  }

  function ops(p) {
    const m = record(p.machine), rows = list(p.ops).map(record), node = make('div');
    const all = rows.reduce(function (sum, o) { return sum + number(o.mean_ns) * number(o.calls_per_step); }, 0) + number(p.ops_left_out_ns_per_step);
    function step(o) { return number(o.mean_ns) * number(o.calls_per_step); }
    function roof(o) { return Math.max(share(o.flops, m.flops_per_s), share(o.bytes, m.bytes_per_s)) * 1e9 / Math.max(1, number(o.mean_ns)); }
    rows.sort(function (a, b) { return step(b) - step(a); });
    const view = table('Ops of a step, by time. Roof: the time that the machine\'s best FLOP/s and bytes/s would need, over the time taken; above 100 % data come from caches', [
      ['op', function (o) { return String(o.name); }, null, 'text'], ['block', function (o) { return String(o.block); }, null, 'text'],
      ['pass', function (o) { return String(o.pass); }, null, 'text'], ['stage', function (o) { return number(o.stage); }],
      ['kernel', function (o) { return String(o.kernel); }, null, 'text'],
      ['calls', function (o) { return number(o.calls_per_step); }], ['a call', function (o) { return number(o.mean_ns); }, function (o, v) { return time(v); }],
      ['a step', step, function (o, v) { return time(v); }],
      ['share', function (o) { return share(step(o), all); }, function (o, v) { return make('span', {}, [make('i', { class: 'bar', style: 'width:' + 60 * v + 'px' }), ' ' + percent(v)]); }],
      ['FLOP/s', function (o) { return number(o.flops) * 1e9 / Math.max(1, number(o.mean_ns)); }, function (o, v) { return count(v); }],
      ['bytes/s', function (o) { return number(o.bytes) * 1e9 / Math.max(1, number(o.mean_ns)); }, function (o, v) { return bytes(v); }],
      ['roof', roof, function (o, v) { return percent(v); }]
    ], rows, number(p.ops_left_out) > 0 ? '(' + number(p.ops_left_out) + ' shorter ones are left out)' : '');
    const search = make('input', { type: 'search', placeholder: 'op, block or kernel', 'aria-label': 'Search ops', oninput: function () {
      const text = search.value.trim().toLowerCase();
      view.showOnly(function (o) { return (o.name + ' ' + o.block + ' ' + o.kernel + ' ' + o.pass).toLowerCase().includes(text); });
    } });
    node.append(make('div', { class: 'tools' }, search), view);
    return node;
  }

  function traffic(p) {
    const node = make('div'), cells = {};
    list(p.edges).map(record).forEach(function (e) {
      if (e.stash || e.from === e.to) return;
      const key = number(e.from) + ' → ' + number(e.to);
      cells[key] = cells[key] || { key: key, bytes: 0, messages: 0, wait: 0, values: [] };
      cells[key].bytes += number(e.bytes) * number(e.per_step);
      cells[key].messages += number(e.per_step);
      cells[key].wait += number(e.wait_ns);
      if (cells[key].values.length < 4) cells[key].values.push(String(e.value));
    });
    node.append(table('Messages between devices in a step of one replica', [
      ['devices', function (c) { return c.key; }, null, 'text'], ['bytes', function (c) { return c.bytes; }, function (c, v) { return bytes(v); }],
      ['messages', function (c) { return c.messages; }], ['waited for on the way', function (c) { return c.wait; }, function (c, v) { return time(v); }],
      ['values', function (c) { return c.values.join(', '); }, null, 'text long']], Object.values(cells)));
    const kinds = Object.keys(record(list(p.traffic)[0]));
    const rows = list(p.traffic).map(function (row, i) { return Object.assign({ at: i }, record(row)); });
    if (rows.some(function (r) { return kinds.some(function (k) { return number(r[k]) > 0; }); }))
      node.append(table('Remote memory and sums over replicas, bytes in a step', [['device', function (r) { return r.at; }]].concat(kinds.map(function (k) {
        return [k, function (r) { return number(r[k]); }, function (r, v) { return bytes(v); }];
      })), rows));
    return node;
  }

  function host(p) {
    const r = record(p.recorded), node = make('div'), kinds = { HOST_IN: 0, HOST_OUT: 0 };
    list(p.devices).map(record).forEach(function (d) {
      Object.keys(kinds).forEach(function (k) { kinds[k] += number(list(record(d.kinds)[k])[1]); });
    });
    node.append(make('ul', {}, [
      make('li', {}, 'Between runs the program took ' + time(number(r.wall_ns) - number(r.run_ns)) + ' of ' + time(r.wall_ns) + ' (' + percent(share(number(r.wall_ns) - number(r.run_ns), r.wall_ns)) + ').'),
      make('li', {}, 'Of that it waited ' + time(r.loader_wait_ns) + ' for the loader: ' + count(r.loader_misses) + ' of ' + count(r.loader_batches) + ' batches were not ready.'),
      make('li', {}, 'Devices took ' + time(kinds.HOST_IN) + ' to bring inputs in, and ' + time(kinds.HOST_OUT) + ' to bring outputs out.')]));
    return node;
  }

  function cores(p) {
    const window = number(record(p.recorded).window_ns);
    return table('Cores: what each worker did in the timeline\'s window of ' + time(window), [
      ['rank', function (c) { return number(c.rank); }], ['core', function (c) { return number(c.worker); }],
      ['work', function (c) { return share(c.work_ns, window); }, function (c, v) { return percent(v); }],
      ['help with parts', function (c) { return share(c.help_ns, window); }, function (c, v) { return percent(v); }],
      ['loads, stores, sums', function (c) { return share(c.beside_ns, window); }, function (c, v) { return percent(v); }],
      ['idle', function (c) { return share(c.idle_ns, window); }, function (c, v) { return percent(v); }]], list(p.cores).map(record));
  }

  function configuration(p) {
    const c = record(p.configuration), m = record(p.machine);
    const rows = Object.keys(c).map(function (k) { return [k.replace(/_/g, ' '), String(c[k])]; })
      .concat([['instructions', String(m.instructions || '')], ['processors', String(number(m.processors))], ['best of the machine', count(m.flops_per_s) + 'FLOP/s, ' + bytes(m.bytes_per_s) + '/s'], ['made by', 'brigade ' + String(p.made_by || '')]])
      .concat(list(p.settings).map(function (s) { return list(s).map(String); }));
    return table('What was run', [['option', function (r) { return r[0]; }, null, 'text'], ['value', function (r) { return r[1] || ''; }, null, 'text long']], rows);
  }

  /* ---- comparison ---- */

  function comparison(a, b) {
    function lost(p, key) { return share(record(record(p.time).lost_ns)[key], record(p.time).all_ns); }
    function most(p) { return Math.max.apply(null, list(p.memory).map(function (d) { return number(record(d).bytes); }).concat([0])); }
    const rows = [
      ['throughput, ' + String(a.samples || 'samples') + '/s', number(record(a.rates).samples_per_s), number(record(b.rates).samples_per_s), count, true],
      ['FLOP/s', number(record(a.rates).flops_per_s), number(record(b.rates).flops_per_s), count, true],
      ['a step', share(record(a.recorded).wall_ns, record(a.recorded).steps), share(record(b.recorded).wall_ns, record(b.recorded).steps), time, false],
      ['work, of device time', share(record(a.time).busy_ns, record(a.time).all_ns), share(record(b.time).busy_ns, record(b.time).all_ns), percent, true]
    ].concat(Object.keys(causes).map(function (k) { return ['waiting: ' + causes[k][0], lost(a, k), lost(b, k), percent, false]; }))
      .concat([['memory of the largest device', most(a), most(b), bytes, false]]).filter(function (r) { return r[1] > 0 || r[2] > 0; });
    return table('Both profiles', [['', function (r) { return r[0]; }, null, 'text'], [a.folder || 'first', function (r) { return r[1]; }, function (r, v) { return r[3](v); }],
      [b.folder || 'second', function (r) { return r[2]; }, function (r, v) { return r[3](v); }],
      ['change', function (r) { return share(r[2] - r[1], r[1]); }, function (r, v) {
        return make('span', { class: Math.abs(v) < 0.01 ? '' : (v > 0) === r[4] ? 'good' : 'bad' }, r[1] > 0 ? (v > 0 ? '+' : '') + percent(v) : 'new');
      }]], rows);
  }

  /* ---- the page ---- */

  const sections = [['summary', 'Summary', summary], ['insights', 'What to change', insights], ['timeline', 'Timeline', timeline], ['memory', 'Memory', memory],
    ['stages', 'Stages', stages], ['ops', 'Ops', ops], ['traffic', 'Traffic', traffic], ['host', 'Host', host], ['cores', 'Cores', cores], ['configuration', 'Configuration', configuration]];
  const nav = document.getElementById('contents'), hooks = {};
  function title(p) { return [p.program, p.model].filter(Boolean).map(String).join(': ') || 'profile'; }
  function add(id, name, content) {
    nav.append(make('a', { href: '#' + id }, name));
    main.append(make('section', { id: id, 'aria-labelledby': id + '-head' }, [make('h2', { id: id + '-head' }, name)].concat(content)));
  }
  if (profiles.length > 1) {
    add('comparison', 'Comparison', comparison(profiles[0], profiles[1]));
    document.getElementById('title').textContent = title(profiles[0]) + ' and ' + title(profiles[1]);
  } else if (profiles.length === 1) {
    document.getElementById('title').textContent = title(profiles[0]);
  }
  document.title = document.getElementById('title').textContent + ' – Brigade profile';
  sections.forEach(function (section) {
    const views = profiles.map(function (p) { return section[2](p); });
    hooks[section[0]] = views.map(function (v) { return v.hooks; });
    add(section[0], section[1], views.length > 1 ? make('div', { class: 'pair' }, views.map(function (v, i) {
      return make('div', {}, [make('h3', {}, (i + 1) + '. ' + (profiles[i].folder || title(profiles[i]))), v]);
    })) : views);
  });
  document.getElementById('theme').addEventListener('click', function () {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    redrawAll();
  });
  if (location.hash === '#dark' || location.hash === '#light') document.documentElement.dataset.theme = location.hash.slice(1);
  window.addEventListener('resize', redrawAll);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
  redrawAll();
  window.brigadeReport = { profiles: profiles, hooks: hooks };
})();
