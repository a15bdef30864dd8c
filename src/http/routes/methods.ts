import type { IncomingMessage } from 'node:http';
import type { Request, Response } from 'express';

export const onlyAllow = (methods: string) => (_request: Request, response: Response) =>
  void response.status(405).set('Allow', methods).type('text').send('method not allowed\n');

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';

export const READ = 'GET, HEAD';
