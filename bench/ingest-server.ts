/**
 * Runs the service of `ingest.ts` in a separate process. Its pages are serialized in advance, so that serving them costs almost
 * nothing. Sends its URL to its parent.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answer } from './ingest-pages.ts';

const bytes = new Map<string, Buffer>();

function bytesOf(text: string): Buffer {
  const made = bytes.get(text) ?? Buffer.from(text);
  bytes.set(text, made);
  return made;
}

const server = createServer((request, response) => {
  response.end(bytesOf(answer(new URL(request.url ?? '', 'http://x').searchParams)));
});
server.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
process.on('disconnect', () => process.exit());
