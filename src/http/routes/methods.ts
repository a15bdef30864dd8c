import type { Request, Response } from 'express';

/** Responds to methods that a route does not have. */
export const onlyAllow = (methods: string) => (_request: Request, response: Response) =>
  void response.status(405).set('Allow', methods).type('text').send('method not allowed\n');

export const READ = 'GET, HEAD';
