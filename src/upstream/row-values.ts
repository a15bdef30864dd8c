import { DAY, parseInstant } from '../kit/duration.ts';

/** No service has older data. Times in other units than milliseconds are outside the range. */
const EARLIEST = Date.UTC(2015, 0);
/** Maximum delay of a delivery (ms). The documented plans allow a year. */
export const MAX_DELAY = 3660 * DAY;

const WHOLE = /^(?:0|[1-9]\d{0,15})$/;
const DECIMAL = /^\d+(?:\.\d+)?$/;

function wholeNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && WHOLE.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
}

function millis(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') return undefined;
  return DECIMAL.test(value) ? Number(value) : parseInstant(value);
}

/** Whether a time is not set. Services write zero or an empty text for this. */
export const isUnset = (time: unknown) => time == null || time === '' || time === 0 || time === '0';

/**
 * Reads the numbers, times and flags of one row. A value in another form than documented is read if its meaning is certain.
 * Otherwise it is undefined, and the row is incomplete. Null means "not set".
 */
export class RowValues {
  /** Undefined if all values so far were readable. */
  isIncomplete: true | undefined;
  readonly #now: number;

  /** `now`: the current time (ms since the Unix epoch). */
  constructor(now: number) {
    this.#now = now;
  }

  unreadable(): undefined {
    this.isIncomplete = true;
    return undefined;
  }

  /** Reads a count: an integer of at least 0, or its decimal text. */
  count(value: unknown): number | undefined {
    return value == null ? undefined : (wholeNumber(value) ?? this.unreadable());
  }

  /** Reads an HTTP status; 0 means no response. */
  status(value: unknown): number | undefined {
    const status = this.count(value);
    return status === undefined || status === 0 || (status >= 100 && status <= 999) ? status : this.unreadable();
  }

  flag(value: unknown): boolean | undefined {
    if (value == null || typeof value === 'boolean') return value ?? undefined;
    const text = typeof value === 'string' ? value.toLowerCase() : '';
    return text === 'true' || text === 'false' ? text === 'true' : this.unreadable();
  }

  /**
   * Reads a time in milliseconds since the Unix epoch, its decimal text, or ISO 8601 text (UTC by default). A time before 2015,
   * or later than `ahead` (ms) from now, is unreadable.
   */
  time(value: unknown, ahead = DAY): number | undefined {
    if (isUnset(value)) return undefined;
    const time = millis(value);
    const isPlausible = time !== undefined && time >= EARLIEST && time <= this.#now + ahead;
    return isPlausible ? Math.floor(time) : this.unreadable();
  }
}
