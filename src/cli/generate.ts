import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { Command } from 'commander';
import { configJsonSchema } from '../config/json-schema.ts';
import { configReference } from '../config/reference.ts';

/** For the project's own repository: writes what is derived from the code, or says what is out of date. */
export function generateCommand(): Command {
  return new Command('generate')
    .description('write the files that are derived from the code')
    .option('--check', 'write nothing; fail when a file differs')
    .action(async ({ check }: { check?: boolean }) => {
      // Only here: it needs what is installed for development.
      const { generatedFiles, withRenamed } = await import('../mixin/generated.ts');
      const schema = configJsonSchema();
      const files: Readonly<Record<string, string>> = {
        'config.schema.json': `${JSON.stringify(schema, null, 2)}\n`,
        'docs/config.md': configReference(schema),
        'docs/upgrading.md': withRenamed(readFileSync('docs/upgrading.md', 'utf8')),
        ...generatedFiles(),
      };
      const stale = Object.entries(files).filter(
        ([file, text]) => !existsSync(file) || readFileSync(file, 'utf8') !== text,
      );
      if (!check) {
        for (const [file, text] of stale) {
          mkdirSync(dirname(file), { recursive: true });
          writeFileSync(file, text);
        }
      } else if (stale.length > 0) {
        throw new Error(`out of date, run npm run generate: ${stale.map(([file]) => file).join(', ')}`);
      }
    });
}
