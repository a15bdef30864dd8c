import { z } from 'zod';

export const logOptions = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], { error: 'must be one of debug, info, warn, error, silent' })
    .default('info')
    .describe('The least important lines that are written.'),
  format: z
    .enum(['json', 'text'], { error: 'must be json or text' })
    .default('json')
    .describe('`json`: one object a line, on standard error. `text`: for people.'),
});

export type LogOptions = z.output<typeof logOptions>;
