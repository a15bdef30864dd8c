import { describe, expect, it } from 'vitest';
import { createLog } from '../../src/telemetry/log.ts';

/** ESC, CSI (a C1 control), DEL, a bidirectional override, a line separator, and an invisible tag above U+FFFF. */
const EVIL = 'a\u001b[2Jb\u009b31mc\u007fd\u202ee\u2028f\u{e0041}g';

function lineOf(format: 'json' | 'text'): string {
  const lines: string[] = [];
  createLog({ level: 'info', format }, { write: (line: string) => void lines.push(line) }).warn(
    { key: EVIL, [EVIL]: 1, deep: { list: [EVIL] } },
    `the service said ${EVIL}`,
  );
  expect(lines.length).toBe(1);
  return lines[0] as string;
}

describe.each(['json', 'text'] as const)('a log line as %s', format => {
  it('a log line contains no control characters except the final line break', () => {
    expect(lineOf(format)).toMatch(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*\n$/u);
    expect(lineOf(format)).toContain('the service said a');
  });
});

it('a parsed JSON line contains the original values', () => {
  expect(JSON.parse(lineOf('json'))).toMatchObject({
    level: 'warn',
    key: EVIL,
    [EVIL]: 1,
    deep: { list: [EVIL] },
    msg: `the service said ${EVIL}`,
  });
});
