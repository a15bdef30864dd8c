import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { createFolder } from '../kit/new-file.ts';
import { commandGroup, linkOption, loadOptional, runbooksOption, servedLinks } from './option-values.ts';
import { type Settings, shippedDashboards } from './shipped.ts';

interface Options extends Omit<Settings, 'objectives'> {
  readonly dir?: string;
  readonly config?: string;
}

function writeTo(dir: string, files: ReturnType<typeof shippedDashboards>): void {
  try {
    createFolder(dir);
    for (const [name, dashboard] of Object.entries(files)) {
      writeFileSync(join(dir, name), `${JSON.stringify(dashboard, null, 2)}\n`);
      process.stdout.write(`${join(dir, name)}\n`);
    }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`can't write dashboards to ${dir}: ${why}`, { cause: error });
  }
}

function printCommand(): Command {
  return new Command('print')
    .description('print the Grafana dashboards as one JSON object, by file name; with --dir, write files')
    .option('--dir <dir>', 'folder to write overview.json, dlq.json and agent.json to')
    .option('--config <file>', 'configuration file whose objectives and address the dashboards use; needs no secrets')
    .option('--job <name>', 'scrape job that is initially selected (default: all)')
    .addOption(runbooksOption())
    .option('--grafana <url>', 'address of Grafana (default: the Grafana that shows the dashboard)', linkOption)
    .option('--traces <url>', 'address of the trace search (default: /explore of the Grafana)')
    .action(({ dir, config, ...places }: Options) => {
      const own = loadOptional(config);
      const ofConfig = own && { runbooks: servedLinks(own).runbooks, objectives: own.objectives };
      const files = shippedDashboards({ ...ofConfig, ...places });
      if (dir === undefined) {
        process.stdout.write(`${JSON.stringify(files, null, 2)}\n`);
        return;
      }
      writeTo(dir, files);
    });
}

export const dashboardsCommand = (): Command =>
  commandGroup('dashboards', 'print Grafana dashboards', [printCommand()]);
