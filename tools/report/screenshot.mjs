// Pictures of a report page in light and dark, by headless Chromium, to be looked at:
//
//   npm install --no-save playwright-core && node tools/report/screenshot.mjs PAGE.html OUT
//
// writes OUT-light.png and OUT-dark.png after stepping through the page by keys. It fails when the page's script does, or
// when the page asks for anything but its own file.
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
  for (const [part, says, keys] of [['.point', '.curve .says', []], ['#kl', '#kl .says', ['ArrowRight', 'End', 'ArrowLeft']], ['#detail', '#map-says', ['ArrowUp', 'Home', 'PageDown', 'ArrowDown']]]) {
    const one = tab.locator(part).first();
    if (await one.count() === 0) continue;
    await one.focus();
    for (const key of keys) await tab.keyboard.press(key);
    console.log(`${colorScheme} ${part}: ${await tab.locator(says).first().textContent()}`);
  }
  await tab.screenshot({ path: `${out}-${colorScheme}.png`, fullPage: true });
  await tab.close();
}
await browser.close();
for (const fault of faults) console.error(fault);
process.exit(faults.length > 0 ? 1 : 0);
