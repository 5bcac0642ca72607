// A report page in headless Chromium, in light and dark; tools/report/check.sh has what it needs:
//
//   node screenshot.mjs PAGE.html OUT
//
// steps through the page by keys, points at its map, lays the map's layers over each other, and writes OUT-light.png and
// OUT-dark.png, to be looked at. It fails when a key, the pointer or a layer changes nothing, when the page's script
// fails, and when the page asks for anything but its own file.
import { resolve } from 'node:path';
import { chromium } from 'playwright-core';

const [page, out] = process.argv.slice(2);
const quiet = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: quiet });
const faults = [];
for (const colorScheme of ['light', 'dark']) {
  const tab = await browser.newPage({ viewport: { width: 1100, height: 900 }, colorScheme });
  tab.on('pageerror', error => faults.push(String(error)));
  tab.on('console', line => { if (line.type() === 'error') faults.push(line.text()); });
  tab.on('request', request => { if (!request.url().startsWith('file:')) faults.push(request.url()); });
  await tab.goto('file://' + resolve(page));
  const changes = async (what, text, act) => {
    const before = await text();
    await act();
    if (await text() === before) faults.push(`${colorScheme}: ${what} changes nothing`);
  };
  for (const [part, says, keys] of [['.point', '.curve .says', ['']], ['#kl', '#kl .says', ['ArrowRight', 'End', 'ArrowLeft']], ['#detail', '#map-says', ['ArrowUp', 'Home', 'PageDown', 'ArrowLeft']]]) {
    const one = tab.locator(part).first(), text = () => tab.locator(says).first().textContent();
    if (await one.count() === 0) continue;
    if (part !== '.point') await one.focus();
    for (const key of keys) await changes(`${part} ${key || 'Tab'}`, text, () => key ? tab.keyboard.press(key) : one.focus());
    console.log(`${colorScheme} ${part}: ${await text()}`);
  }
  const map = tab.locator('#detail canvas');
  if (await map.count() > 0) {
    await changes('pointing at the map', () => tab.locator('#map-says').textContent(), () => map.hover({ position: { x: 200, y: 30 } }));
    for (const layer of ['mass', 'reads', 'both']) {
      await changes(`showing ${layer}`, () => map.evaluate(c => c.toDataURL()), () => tab.locator(`input[value=${layer}]`).check());
    }
  }
  await tab.screenshot({ path: `${out}-${colorScheme}.png`, fullPage: true });
  await tab.close();
}
await browser.close();
for (const fault of faults) console.error(fault);
process.exit(faults.length > 0 ? 1 : 0);
