import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config/errors.ts';
import { printable } from '../kit/text.ts';
import { version } from '../kit/version.ts';
import { requireConfig } from './config-option.ts';

/** Commands by group, in the order of the help. They are loaded lazily: an agent needs neither demo nor mixin. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, () => Promise<Command>>>>> = {
  'Run:': {
    serve: async () => (await import('./serve.ts')).serveCommand(),
    demo: async () => (await import('./demo.ts')).demoCommand(),
    emulate: async () => (await import('./emulate.ts')).emulateCommand(),
  },
  'Configure:': {
    'check-config': async () => (await import('./check-config.ts')).checkConfigCommand(),
    doctor: async () => (await import('./doctor/doctor.ts')).doctorCommand(),
    plan: async () => (await import('./plan.ts')).planCommand(),
    snapshot: async () => (await import('./snapshot.ts')).snapshotCommand(),
  },
  'Inspect:': {
    report: async () => (await import('./report.ts')).reportCommand(),
    list: async () => (await import('./list.ts')).listCommand(),
    message: async () => (await import('./message.ts')).messageCommand(),
  },
  'Alerts:': {
    rules: async () => (await import('./rules.ts')).rulesCommand(),
    dashboards: async () => (await import('./dashboards.ts')).dashboardsCommand(),
    notify: async () => (await import('./notify.ts')).notifyCommand(),
  },
  'Operate:': {
    'auto-cancel': async () => (await import('./auto-cancel.ts')).autoCancelCommand(),
    store: async () => (await import('./store.ts')).storeCommand(),
    'rotate-token': async () => (await import('./rotate-token.ts')).rotateTokenCommand(),
    healthcheck: async () => (await import('./healthcheck.ts')).healthcheckCommand(),
  },
};

/** At least one example of each command, for its help. */
export const EXAMPLES: readonly string[] = [
  'serve --config config.yaml',
  'demo --scenario dlq-growth',
  'emulate --port 8080 --scenario outage',
  'check-config config.yaml --no-secrets',
  'doctor --config config.yaml',
  'plan --config config.yaml',
  'snapshot --config config.yaml --json',
  'report --config config.yaml --account production',
  'list dlq --queue emails --status 500 --since 2h --config config.yaml',
  'list events --message msg_w0tm8g1k18ph60p18ph60p --config config.yaml',
  'list keys --limit 10 --config config.yaml',
  'list schedules --wide --config config.yaml',
  'list queues --json --config config.yaml',
  'list runs --state failed --config config.yaml',
  'message msg_w0tm8g1k18ph60p18ph60p --config config.yaml',
  'rules print --config config.yaml --set default,slo',
  'rules test examples/rules/hung.yaml --config examples/auto-cancel.yaml',
  'dashboards print --dir dashboards --config config.yaml',
  'notify test chat --config config.yaml',
  'auto-cancel explain 1763650000000-7 --config config.yaml',
  'auto-cancel journal --since 24h --config config.yaml',
  'auto-cancel report --since 30d --config config.yaml',
  'auto-cancel pending --config config.yaml',
  'auto-cancel approve 3f9a02c1 --config config.yaml',
  "auto-cancel pause --reason 'deploying the callback endpoint' --config config.yaml",
  "auto-cancel resume --reason 'deployed' --config config.yaml",
  "auto-cancel reset-breaker errors --reason 'token replaced' --config config.yaml",
  'store backup backup.db --config config.yaml',
  'store copy --from-config sqlite.yaml --to-config postgres.yaml',
  'rotate-token --check --config config.yaml --account production',
  'healthcheck --config config.yaml',
];

function addExamples(command: Command, path: string): void {
  const examples = EXAMPLES.filter(each => `${each} `.startsWith(`${path} `));
  command.addHelpText('after', `\nExamples:\n${examples.map(each => `  delivery-watch ${each}`).join('\n')}`);
  for (const each of command.commands) addExamples(each, `${path} ${each.name()}`);
}

const COMMANDS: ReadonlyMap<string, () => Promise<Command>> = new Map(
  Object.entries(GROUPS).flatMap(([group, commands]) =>
    Object.entries(commands).map(([name, load]) => [
      name,
      async () => {
        const command = (await load()).helpGroup(group);
        addExamples(command, name);
        return command;
      },
    ]),
  ),
);

export const allCommands = (): Promise<Command[]> => Promise.all([...COMMANDS.values()].map(load => load()));

async function commandsFor([first = '']: readonly string[]): Promise<Command[]> {
  if (first === '--version' || first === '-V') return [];
  const load = COMMANDS.get(first);
  return load ? [await load()] : allCommands();
}

/** Runs a command line and returns the exit code: 0 success, 1 failure, 2 invalid usage or configuration. `report` sets its own. */
export async function runCli(argv: readonly string[]): Promise<number> {
  // Ignore write errors: standard error contains only notes. The command's result is on standard output.
  process.stderr.on('error', () => {});
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Keep running if the reader closes the output.
    if (error.code === 'EPIPE' || error.code === 'EIO') return;
    process.stderr.write(`standard output: ${error.message}\n`);
    process.exit(1);
  });
  const program = new Command('delivery-watch')
    .description('Prometheus exporter and alerting agent for a hosted message-delivery service')
    .version(version)
    .exitOverride()
    .hook('preAction', (_, command) => requireConfig(command));
  for (const command of await commandsFor(argv)) {
    program.addCommand(command.copyInheritedSettings(program));
    for (const each of command.commands) each.copyInheritedSettings(program);
  }
  try {
    await program.parseAsync(argv, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`${message.split('\n').map(printable).join('\n')}\n`);
    return error instanceof ConfigError ? 2 : 1;
  }
}
