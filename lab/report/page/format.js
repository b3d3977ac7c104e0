// Numbers as text. null, undefined and NaN: "-".
const known = value => typeof value === "number" && Number.isFinite(value);

const digits = (value, most) => value.toLocaleString("en-US", { maximumSignificantDigits: most });

function count(value) {
  return known(value) ? Math.round(value).toLocaleString("en-US") : "-";
}

// Of a classifier the accuracy in percent, of a regression R2.
function quality(value, places = 1) {
  if (!known(value)) return "-";
  return DATA.regression ? value.toFixed(places + 2) : (100 * value).toFixed(places) + "%";
}

const qualityName = () => (DATA.regression ? "R2" : "accuracy");

function bytes(value) {
  if (!known(value)) return "-";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return (unit && Math.abs(value) < 99.95 ? digits(value, 3) : Math.round(value)) + " " + units[unit];
}

function seconds(value) {
  if (!known(value)) return "-";
  if (value === 0) return "0 s";
  if (Math.abs(value) < 0.9995) return digits(1000 * value, 3) + " ms";
  if (Math.abs(value) < 119.5) return digits(value, 3) + " s";
  if (Math.abs(value) < 7170) {
    const whole = Math.round(value);
    return Math.floor(whole / 60) + " min" + (whole % 60 ? " " + (whole % 60) + " s" : "");
  }
  const minutes = Math.round(value / 60);
  return count(Math.floor(minutes / 60)) + " h" + (minutes % 60 ? " " + (minutes % 60) + " min" : "");
}

// On an axis that continues in seconds, half seconds are not written in milliseconds.
const secondsUpTo = most => value => (most >= 1 && value > 0 && value < 0.9995 ? digits(value, 2) + " s" : seconds(value));

function plain(value) {
  if (!known(value)) return "-";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7) return value.toExponential(1).replace("e", " e").replace("+", "");
  return digits(value, size >= 1 ? 4 : 2);
}

const times = value => (known(value) ? digits(value, value < 10 ? 2 : 3) + "\u00d7" : "-");

// Any value of a settings file.
function setting(value) {
  if (value === null || value === undefined) return "-";
  if (typeof value === "number") return Math.abs(value) >= 10000 && Number.isInteger(value) ? count(value) : String(value);
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

// A number over the seeds, [mean, lowest, highest, runs, half of the 95% confidence interval], as text.
const mean = band => (band ? band[0] : null);
const interval = (band, show) => (band && known(band[4]) ? "\u00b1 " + show(band[4]) : "");
// The lower or upper (side -1, 1) end of the interval; the mean of a single run.
const endOf = (band, side) => band[0] + side * (known(band[4]) ? band[4] : 0);

// A difference of accuracies, in percentage points, or of R2.
const signed = value => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + (DATA.regression ? Math.abs(value).toFixed(4) : (100 * Math.abs(value)).toFixed(2));
