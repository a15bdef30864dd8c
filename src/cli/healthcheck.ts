import { Command } from 'commander';
import { healthUrl } from '../config/health-url.ts';
import { requestHealth } from '../http/request-health.ts';

export function healthcheckCommand(): Command {
  return new Command('healthcheck')
    .description(
      'exit 0 if the agent of a configuration file responds on this machine, otherwise 1; for container engines',
    )
    .requiredOption('--config <file>', 'configuration file of the running agent; required')
    .action(async ({ config }: { config: string }) => requestHealth(healthUrl(config)));
}
