import { execFileSync } from 'node:child_process';
import { crc32, gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { appendCrc, crcOperator, gzipBlock, inflateBlock, joinGzip } from '../../src/metrics/gzip-block.ts';
import { runs } from '../support/runs.ts';

const anyTexts = fc.array(
  fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ minLength: 5000, maxLength: 90_000 })),
  {
    maxLength: 6,
  },
);

test('the combined checksums of parts equal the checksum of the concatenated bytes', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 2000 })), parts => {
      const crc = parts.reduce(
        (crc, part) => appendCrc(crc, { crc: crc32(part), operator: crcOperator(part.length) }),
        0,
      );
      expect(crc).toBe(crc32(Buffer.concat(parts)));
    }),
  );
});

test('the checksum of 128 MiB can be appended to another checksum', () => {
  const zeros = Buffer.alloc(2 ** 27 + 3);
  expect(appendCrc(crc32('x'), { crc: crc32(zeros), operator: crcOperator(zeros.length) })).toBe(
    crc32(zeros, crc32('x')),
  );
});

test('joined blocks form one gzip member, and each block can be inflated separately', () => {
  fc.assert(
    fc.property(anyTexts, texts => {
      const blocks = texts.map(text => gzipBlock(text, 'utf8'));
      expect(gunzipSync(joinGzip(blocks)).toString()).toBe(texts.join(''));
      expect(blocks.map(block => inflateBlock(block).toString())).toEqual(texts);
    }),
    { numRuns: runs(50) },
  );
});

test('gunzip accepts the joined blocks', () => {
  const texts = ['ä\n', 'line\n'.repeat(50_000), '', 'end\n'];
  const body = joinGzip(texts.map(text => gzipBlock(text, 'utf8')));
  expect(execFileSync('gunzip', ['-c'], { input: body }).toString()).toBe(texts.join(''));
});
