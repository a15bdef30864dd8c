/**
 * The values of one series, sample by sample, as text: what has changed. NaN stands for no value. Tokens, a space between two:
 * `5` or `-3`: the value before and so much, in whole numbers, after none and at first 0 and so much; `~12`: the same in
 * thousandths; `@0.1`: the value itself; `n`: none; `=7`: seven more samples as the one before. All samples after the last token
 * are as the last one.
 */

const THOUSAND = 1000;

/** Exactly `value` when added to `base`; undefined when there is no such number of thousandths. */
function thousandths(value: number, base: number): number | undefined {
  const [to, from] = [Math.round(value * THOUSAND), Math.round(base * THOUSAND)];
  const isExact = to / THOUSAND === value && from / THOUSAND === base;
  return isExact && Number.isSafeInteger(to) && Number.isSafeInteger(from) ? to - from : undefined;
}

function tokenOf(value: number, last: number): string {
  if (Number.isNaN(value)) return 'n';
  const base = Number.isNaN(last) ? 0 : last;
  if (Number.isSafeInteger(value) && Number.isSafeInteger(base) && Number.isSafeInteger(value - base)) {
    return String(value - base);
  }
  const rise = thousandths(value, base);
  return rise === undefined || !Number.isSafeInteger(rise) ? `@${value}` : `~${rise}`;
}

/** A column that grows. */
export interface Column {
  text: string;
  /** Of the last token. */
  last: number;
  /** Samples that the text says something of; all further ones are as the last. */
  covered: number;
}

export const createColumn = (): Column => ({ text: '', last: Number.NaN, covered: 0 });

/** Puts `value` behind, as the sample with this index; samples between are as the last. */
export function append(column: Column, index: number, value: number): void {
  const { text, last, covered } = column;
  if (covered > 0 && Object.is(value, last)) return;
  const gap = index > covered ? ` =${index - covered}` : '';
  column.text = covered === 0 ? tokenOf(value, Number.NaN) : `${text}${gap} ${tokenOf(value, last)}`;
  column.last = value;
  column.covered = index + 1;
}

function columnOf(values: readonly number[]): Column {
  const column = createColumn();
  for (const [index, value] of values.entries()) append(column, index, value);
  return column;
}

export const encodeColumn = (values: readonly number[]): string => columnOf(values).text;

const TOKEN = /^(?:n|-?\d+|~-?\d+|=\d+|@\S+)$/;

/** Throws where the text is no column of so many samples. */
export function decodeColumn(text: string, length: number): number[] {
  const values: number[] = [];
  let last: number | undefined;
  for (const token of text.split(' ')) {
    const base = last === undefined || Number.isNaN(last) ? 0 : last;
    const change = Number(token);
    // Most are whole numbers, and thousands are read at a time.
    if (Number.isSafeInteger(change) && token !== '') {
      last = base + change;
      values.push(last);
    } else {
      const digits = Number(token.slice(1));
      if (!TOKEN.test(token)) throw new Error('not a column');
      if (token.startsWith('=')) {
        if (last === undefined || values.length + digits > length) throw new Error('not a column of this length');
        for (let more = 0; more < digits; more += 1) values.push(last);
      } else {
        if (token === 'n') last = Number.NaN;
        else last = token.startsWith('@') ? digits : (Math.round(base * THOUSAND) + digits) / THOUSAND;
        values.push(last);
      }
    }
    if (values.length > length) throw new Error('not a column of this length');
  }
  while (values.length < length) values.push(last as number);
  return values;
}

/** A column that goes on after this text. */
export const resume = (text: string, length: number): Column => columnOf(decodeColumn(text, length));
