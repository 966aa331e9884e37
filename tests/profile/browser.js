/*
 * browser.js: does what a user does with a report: zooms, searches, clicks an action, reads the memory at a moment,
 * sorts, changes the theme. test_browser.sh puts it after the report's own script. The page's last element, `results`,
 * has a line for each check.
 */
'use strict';
(function () {
  const results = [];
  function check(what, good) { results.push((good ? 'ok ' : 'FAILED ') + what); }
  function press(node, key) { node.dispatchEvent(new KeyboardEvent('keydown', { key: key, bubbles: true, cancelable: true })); }
  function pointer(node, kind, x, y) {
    const box = node.getBoundingClientRect();
    node.dispatchEvent(new PointerEvent(kind, { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
  }
  try {
    const report = window.brigadeReport, expected = Number(document.documentElement.dataset.expected);
    check('profiles: ' + report.profiles.length, report.profiles.length === expected);
    check('title', document.title.includes('brigade') || document.title.includes('mnist'));
    ['summary', 'insights', 'timeline', 'memory', 'stages', 'ops', 'traffic', 'host', 'cores', 'configuration'].forEach(function (id) {
      const section = document.getElementById(id);
      check('section ' + id, section !== null && section.textContent.length > 40 && section.querySelector('h2') !== null);
    });
    report.hooks.timeline.forEach(function (t) {
      press(t.canvas, '0');
      const all = t.state.to - t.state.from;
      document.querySelectorAll('#timeline .tools button')[0].click();
      press(t.canvas, '+');
      check('zooms', t.state.to - t.state.from < all);
      press(t.canvas, '0');
      check('shows all again', t.state.to - t.state.from === all);
      /* The longest forward of the first device, where it is drawn. */
      const forward = t.tracks[0].spans.filter(function (e) { return e.kind === 'F'; }).sort(function (a, b) { return b.length - a.length; })[0];
      t.state.from = Math.max(0, forward.start - forward.length);
      t.state.to = forward.start + 2 * forward.length;
      press(t.canvas, 'ArrowUp');
      pointer(t.canvas, 'pointerdown', t.x(forward.start + forward.length / 2), t.rowTop(0));
      pointer(t.canvas, 'pointerup', t.x(forward.start + forward.length / 2), t.rowTop(0));
      check('a click chooses the action', t.state.chosen === forward);
      check('its ops are listed with times', t.detail.querySelectorAll('tbody tr').length > 0 && /\d\s(ns|µs|ms)/.test(t.detail.textContent));
      check('forward in words', t.detail.textContent.includes('forward'));
      press(t.canvas, '.');
      check('the next action by key', t.state.chosen !== forward && t.state.chosen.start >= forward.start);
      check('the simulated step is beside', t.tracks.some(function (tr) { return tr.name.startsWith('simulated'); }));
      check('cores have tracks', t.tracks.some(function (tr) { return tr.name.startsWith('core') && tr.spans.length > 0; }));
      t.tracks.filter(function (tr) { return tr.name.startsWith('core'); }).forEach(function (tr) {
        const wall = report.profiles[0] ? tr.spans.reduce(function (sum, e) { return sum + e.length; }, 0) : 0;
        check(tr.name + ' does no more than its time', wall <= all * 1.02);
      });
      const picture = t.canvas.getContext('2d').getImageData(0, 0, t.canvas.width, t.canvas.height).data;
      const colors = new Set();
      for (let i = 0; i < picture.length; i += 4 * 97) colors.add(picture[i] * 65536 + picture[i + 1] * 256 + picture[i + 2]);
      check('something is drawn', colors.size > 4);
    });
    report.hooks.memory.forEach(function (m) {
      m.moment.value = '500';
      m.moment.dispatchEvent(new Event('input'));
      const before = m.shown.textContent;
      check('what lives at a moment', /At .*live on device/.test(before) && before.includes('weights'));
      m.moment.value = '90';
      m.moment.dispatchEvent(new Event('input'));
      check('another moment', m.shown.textContent !== before);
      m.choice.value = '1';
      m.choice.dispatchEvent(new Event('change'));
      check('another device', m.shown.textContent.includes('device 1'));
    });
    const search = document.querySelector('#timeline input[type=search]');
    search.value = 'update';
    search.dispatchEvent(new Event('input'));
    check('search counts', /[1-9]\d* actions/.test(search.parentNode.textContent));
    const head = document.querySelector('#ops thead button');
    head.click();
    check('a head sorts', head.parentNode.getAttribute('aria-sort') === 'descending');
    const back = getComputedStyle(document.body).backgroundColor;
    document.getElementById('theme').click();
    check('the theme changes', getComputedStyle(document.body).backgroundColor !== back);
    check('canvases and fields have names', Array.from(document.querySelectorAll('canvas, input, select')).every(function (n) { return (n.getAttribute('aria-label') || '').length > 0; }));
    if (expected > 1) {
      check('the comparison has rows', document.querySelectorAll('#comparison tbody tr').length >= 4);
      check('both timelines are drawn side by side', document.querySelectorAll('#timeline .pair canvas').length === 2);
    }
  } catch (error) {
    check('no exception: ' + error, false);
  }
  check('no error on the way: ' + window.brigadeErrors.join('; '), window.brigadeErrors.length === 0);
  const node = document.createElement('pre');
  node.id = 'results';
  node.textContent = results.join('\n');
  document.body.append(node);
})();
