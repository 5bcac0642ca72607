'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);

  // Marks of a curve say what they are where the mouse or the focus is.
  for (const figure of document.querySelectorAll('.curve')) {
    const says = figure.querySelector('.says');
    for (const button of figure.querySelectorAll('[data-series]')) {
      button.addEventListener('click', () => {
        const shown = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', shown);
        figure.querySelector(`[data-line="${button.dataset.series}"]`).style.display = shown ? '' : 'none';
      });
    }
    for (const point of figure.querySelectorAll('.point')) {
      for (const event of ['pointerenter', 'focus']) point.addEventListener(event, () => { says.textContent = point.dataset.says; });
    }
  }

  // Tokens: the chart and the text below it point at the same one.
  const visible = text => JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll('\\\\', '\\');
  const kl = document.getElementById('kl');
  if (kl) {
    const says = kl.querySelector('.says');
    let at = -1;
    const select = i => {
      if (i < 0 || i >= data.tokens.length) return;
      for (const old of kl.querySelectorAll('.on')) old.classList.remove('on');
      for (const one of kl.querySelectorAll(`[data-i="${i}"]`)) one.classList.add('on');
      at = i;
      says.textContent = `token ${i}, “${visible(data.tokens[i].text)}”: ${data.tokens[i].says}`;
    };
    for (const one of kl.querySelectorAll('[data-i]')) one.addEventListener('pointerenter', () => select(Number(one.dataset.i)));
    kl.addEventListener('focus', () => { if (at < 0) select(0); });
    kl.addEventListener('keydown', event => {
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: data.tokens.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      select(to);
    });
  }

  if (data.map) drawMap(data.map, visible);

  function drawMap(map, visible) {
    const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
    const n = map.tokens.length, layers = map.layers;
    const mass = bytes(map.mass), reads = map.reads ? bytes(map.reads) : null;
    const figure = document.getElementById('map'), says = document.getElementById('map-says'), where = document.getElementById('where');
    const overview = document.getElementById('overview'), key = document.getElementById('key');
    const detail = document.getElementById('detail'), canvas = detail.querySelector('canvas');
    const left = 30, cell = Math.max(9, Math.min(16, Math.floor(420 / layers))), column = 16, textHeight = 104;
    let show = reads ? 'both' : 'mass', from = 0, token = 0, layer = 0, count = 1, colours;
    figure.hidden = false;
    if (!reads) for (const label of figure.querySelectorAll('.reads')) label.hidden = true;

    // Colours are the style's; a cell mixes its four corners.
    const readColours = () => {
      const style = getComputedStyle(document.documentElement);
      const rgb = name => [1, 3, 5].map(i => parseInt(style.getPropertyValue(name).trim().slice(i, i + 2), 16));
      colours = { neither: rgb('--neither'), mass: rgb('--mass'), read: rgb('--read'), both: rgb('--both'),
        fg: style.getPropertyValue('--fg'), bg: style.getPropertyValue('--bg'), muted: style.getPropertyValue('--muted'), line: style.getPropertyValue('--line') };
    };
    const mix = (m, r) => {
      if (show === 'mass') r = 0;
      if (show === 'reads') m = 0;
      const part = i => (colours.neither[i] * (1 - r) + colours.read[i] * r) * (1 - m) + (colours.mass[i] * (1 - r) + colours.both[i] * r) * m;
      return [part(0), part(1), part(2)];
    };
    const prepare = (c, width, height) => {
      const ratio = window.devicePixelRatio || 1;
      c.width = Math.round(width * ratio);
      c.height = Math.round(height * ratio);
      c.style.height = height + 'px';
      const ctx = c.getContext('2d');
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      return ctx;
    };
    const massOf = (l, t) => { const b = mass[l * n + t]; return b === 0 ? 0 : map.floor * Math.pow(map.top / map.floor, (b - 1) / 254); };
    const percent = v => String(Number((100 * v).toPrecision(3))) + ' %';

    const drawOverview = () => {
      const width = figure.clientWidth, band = Math.max(2, Math.min(8, Math.floor(160 / layers))), height = band * layers + 6;
      const ctx = prepare(overview, width, height);
      const columns = overview.width, image = ctx.createImageData(columns, layers);
      for (let x = 0; x < columns; x++) {
        const a = Math.floor(x * n / columns), b = Math.max(a + 1, Math.floor((x + 1) * n / columns));
        for (let l = 0; l < layers; l++) {
          let m = 0, r = 0;
          for (let t = a; t < b; t++) { m = Math.max(m, mass[l * n + t]); if (reads) r += reads[l * n + t]; }
          image.data.set([...mix(m / 255, r / (b - a) / 255), 255], (l * columns + x) * 4);
        }
      }
      const small = document.createElement('canvas');
      small.width = columns; small.height = layers;
      small.getContext('2d').putImageData(image, 0, 0);
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(small, 0, 3, width, band * layers);
      ctx.strokeStyle = colours.fg; ctx.lineWidth = 1.5;
      ctx.strokeRect(Math.max(1, from / n * width), 1, Math.max(4, Math.min(count, n) / n * width - 2), height - 2);
    };

    const drawDetail = () => {
      const width = figure.clientWidth;
      count = Math.max(1, Math.floor((width - left) / column));
      from = Math.max(0, Math.min(from, n - count));
      const ctx = prepare(canvas, width, layers * cell + textHeight);
      ctx.font = '11px ui-monospace, monospace';
      ctx.textBaseline = 'middle';
      const every = cell < 12 ? 4 : 1;
      for (let l = 0; l < layers; l++) {
        ctx.fillStyle = colours.muted;
        ctx.textAlign = 'right';
        if (l % every === 0) ctx.fillText(String(l), left - 8, l * cell + cell / 2);
        for (let i = 0; i < count && from + i < n; i++) {
          const b = l * n + from + i;
          ctx.fillStyle = `rgb(${mix(mass[b] / 255, reads ? reads[b] / 255 : 0).map(Math.round).join()})`;
          ctx.fillRect(left + i * column, l * cell, column - 1, cell - 1);
        }
      }
      ctx.textAlign = 'right';
      for (let i = 0; i < count && from + i < n; i++) {
        ctx.save();
        ctx.translate(left + i * column + column / 2 - 1, layers * cell + 6);
        ctx.rotate(-Math.PI / 2);
        ctx.fillStyle = from + i === token ? colours.fg : colours.muted;
        ctx.fillText(short(visible(map.tokens[from + i])), 0, 0);
        ctx.restore();
      }
      if (token >= from && token < from + count) {
        for (const [colour, line] of [[colours.bg, 5], [colours.fg, 2]]) {
          ctx.strokeStyle = colour; ctx.lineWidth = line;
          ctx.strokeRect(left + (token - from) * column - 1, layer * cell - 1 + (layer === 0), column + 1, cell + 1);
        }
      }
      where.textContent = `tokens ${from} to ${Math.min(from + count, n) - 1} of ${n}, layers downwards`;
    };
    const short = text => { const all = Array.from(text.replaceAll(' ', '␣')); return all.length > 14 ? all.slice(0, 13).join('') + '…' : all.join(''); };

    // A key in the colours of the map.
    const drawKey = () => {
      const two = show === 'both', ctx = prepare(key, 200, two ? 64 : 34);
      key.style.width = '200px';
      const size = 40, steps = 20;
      ctx.font = '11px system-ui, sans-serif'; ctx.fillStyle = colours.muted; ctx.textBaseline = 'middle';
      if (two) {
        for (let i = 0; i < steps; i++) for (let j = 0; j < steps; j++) {
          ctx.fillStyle = `rgb(${mix(i / (steps - 1), j / (steps - 1)).map(Math.round).join()})`;
          ctx.fillRect(90 + i * size / steps * 1.5, size - (j + 1) * size / steps + 2, size / steps * 1.5 + .5, size / steps + .5);
        }
        ctx.strokeStyle = colours.line; ctx.strokeRect(90, 2, size * 1.5, size);
        ctx.fillStyle = colours.muted; ctx.textAlign = 'right';
        ctx.fillText('read always', 84, 8); ctx.fillText('never', 84, 38);
        ctx.textAlign = 'center'; ctx.fillText('attention: less, more', 120, 54);
        return;
      }
      for (let i = 0; i < 100; i++) {
        ctx.fillStyle = `rgb(${mix(i / 99, i / 99).map(Math.round).join()})`;
        ctx.fillRect(40 + i * 1.2, 2, 1.7, 12);
      }
      ctx.strokeStyle = colours.line; ctx.strokeRect(40, 2, 120, 12);
      ctx.fillStyle = colours.muted; ctx.textAlign = 'left';
      ctx.fillText(show === 'mass' ? percent(map.floor) : '0 %', 40, 25);
      ctx.textAlign = 'right';
      ctx.fillText(show === 'mass' ? percent(map.top) : '100 %', 160, 25);
    };

    const tell = () => {
      const m = massOf(layer, token);
      let text = `token ${token} “${visible(map.tokens[token])}”, layer ${layer}: ${m === 0 ? 'less than ' + percent(map.floor) : percent(m)} of exact attention`;
      if (reads) text += `, read in ${percent(reads[layer * n + token] / 255)} of steps and key heads`;
      says.textContent = text;
    };
    const draw = () => {
      if (figure.clientWidth === 0) return; // not laid out yet: a resize follows
      readColours(); drawDetail(); drawOverview(); drawKey();
    };
    const go = (t, l) => {
      token = Math.max(0, Math.min(n - 1, t));
      layer = Math.max(0, Math.min(layers - 1, l));
      if (figure.clientWidth === 0) return;
      if (token < from) from = token;
      if (token >= from + count) from = token - count + 1;
      drawDetail(); drawOverview(); tell();
    };

    detail.addEventListener('keydown', event => {
      const to = { ArrowRight: [token + 1, layer], ArrowLeft: [token - 1, layer], ArrowDown: [token, layer + 1], ArrowUp: [token, layer - 1],
        PageDown: [token + count, layer], PageUp: [token - count, layer], Home: [0, layer], End: [n - 1, layer] }[event.key];
      if (!to) return;
      event.preventDefault();
      go(...to);
    });
    const pointed = event => {
      const box = canvas.getBoundingClientRect();
      const i = Math.floor((event.clientX - box.left - left) / column), l = Math.floor((event.clientY - box.top) / cell);
      if (i >= 0 && i < count && from + i < n && l >= 0) go(from + i, Math.min(l, layers - 1));
    };
    canvas.addEventListener('pointermove', pointed);
    canvas.addEventListener('pointerdown', pointed);
    const move = event => {
      const box = overview.getBoundingClientRect();
      from = Math.round((event.clientX - box.left) / box.width * n - count / 2);
      drawDetail();
      go(Math.max(from, Math.min(token, from + count - 1)), layer);
    };
    overview.addEventListener('pointerdown', event => { overview.setPointerCapture(event.pointerId); move(event); });
    overview.addEventListener('pointermove', event => { if (event.buttons) move(event); });
    for (const input of figure.querySelectorAll('input')) {
      input.checked = input.value === show;
      input.addEventListener('change', () => { show = input.value; draw(); });
    }
    new ResizeObserver(draw).observe(figure);
    window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

    // Begin where exact attention looks most.
    let best = 0;
    for (let i = 0; i < mass.length; i++) if (mass[i] > mass[best]) best = i;
    draw();
    from = (best % n) - Math.floor(count / 2);
    go(best % n, Math.floor(best / n));
  }
})();
