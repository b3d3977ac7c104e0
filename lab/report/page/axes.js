// Scales: from a value to 0..1 and the places of its ticks. Each is {place(value), ticks: [[value, text], ...]}; place is
// not finite if a value cannot be shown.
function niceStep(rough, bases) {
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const base = bases.find(b => b * power >= rough * 0.999) || 10;
  return base * power;
}

function linearScale(low, high, wanted, show, roomy = true) {
  if (low === high) {
    low -= Math.abs(low) / 2 || 0.5;
    high += Math.abs(high) / 2 || 0.5;
  }
  const step = niceStep((high - low) / wanted, [1, 2, 5, 10]);
  const begin = roomy ? Math.floor(low / step + 1e-9) * step : low;
  const end = roomy ? Math.ceil(high / step - 1e-9) * step : high;
  const ticks = [];
  for (let i = Math.ceil(begin / step - 1e-9) || 0; i * step <= end + step * 1e-6; i++) ticks.push([i * step, show(i * step || 0)]);
  return { place: value => (value - begin) / (end - begin), ticks };
}

function logScale(low, high, wanted, show) {
  let begin = Math.log10(low), end = Math.log10(high);
  if (end - begin < 0.1) {
    begin -= 0.15;
    end += 0.15;
  }
  const decades = end - begin;
  const factors = decades < 1.2 ? [1, 2, 3, 5, 7] : decades < 2.6 ? [1, 3] : [1];
  const every = Math.max(1, Math.ceil(decades / wanted));
  const ticks = [];
  for (let power = Math.floor(begin); power <= Math.ceil(end); power++) {
    if (power % every) continue;
    for (const factor of factors) {
      const value = factor * Math.pow(10, power), at = Math.log10(value);
      if (at >= begin - 1e-9 && at <= end + 1e-9) ticks.push([value, show(value)]);
    }
  }
  return { place: value => (value > 0 ? (Math.log10(value) - begin) / (end - begin) : NaN), ticks };
}

// Accuracy, logarithmic in the error: 90, 99 and 99.9% are equally far apart.
function errorScale(low, high) {
  const most = Math.min(high, 0.9999), depth = value => -Math.log10(1 - Math.min(value, 0.9999));
  let begin = depth(low), end = depth(most);
  if (end - begin < 0.05) {
    begin -= 0.05;
    end += 0.05;
  }
  const marks = [0, 0.2, 0.5, 0.7, 0.8, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999].filter(v => depth(v) >= begin - 1e-9 && depth(v) <= end + 1e-9);
  const ticks = [];
  for (const value of marks)
    if (!ticks.length || depth(value) - depth(ticks[ticks.length - 1][0]) > (end - begin) / 9) ticks.push([value, quality(value, value > 0.99 ? 1 : 0)]);
  return { place: value => (depth(value) - begin) / (end - begin), ticks };
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!known(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}
