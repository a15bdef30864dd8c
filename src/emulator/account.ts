import type { RequestListener } from 'node:http';
import { type AppParts, createApp } from './app.ts';
import type { Credentials } from './credentials.ts';
import { type Dialect, dialectWith } from './dialect.ts';
import type { FaultSeed } from './fault.ts';
import { createFaults, type Faults } from './faults.ts';
import { scenarioNamed } from './scenarios/index.ts';
import { EmulatorState } from './state.ts';
import type { WorldOptions } from './world.ts';

/** One customer of the service: tokens, rows, dialect and faults that no other account shares. */
export interface EmulatedAccount {
  /** As of now: a reset changes it. */
  readonly token: string;
  readonly readOnlyToken: string;
  readonly credentials: Credentials;
  readonly state: EmulatorState;
  /** How it is answered; may be changed at any time. */
  readonly dialect: Dialect;
  readonly faults: Faults;
}

export interface AccountParts
  extends Omit<WorldOptions, 'dialect'>,
    Pick<AppParts, 'credentials' | 'closing'>,
    Pick<AppParts['about'], 'accounts'> {
  /** Real time. */
  readonly realClock: AppParts['clock'];
  /** How the service speaks, where that is not as usual in the scenario. */
  readonly dialect: Partial<Dialect>;
  /** What goes wrong from the start. */
  readonly faults: readonly FaultSeed[];
}

/** An account whose world begins when somebody first asks for it, so that a thousand are made at once. */
export function createAccount(parts: AccountParts): EmulatedAccount & { readonly answer: RequestListener } {
  const { credentials, clock, seed, scenario: name, accounts } = parts;
  const start = clock.now();
  function build() {
    const scenario = scenarioNamed(name);
    const dialect = dialectWith({ ...scenario.dialect, ...parts.dialect });
    const state = new EmulatorState({ ...parts, dialect });
    const faults = createFaults(seed, () => scenario.fault?.(clock.now() - start));
    faults.replace(parts.faults);
    const about = { scenario: name, description: scenario.description, seed, speed: clock.speed, accounts };
    const answer = createApp({ state, credentials, faults, clock: parts.realClock, closing: parts.closing, about });
    return { dialect, state, faults, answer };
  }
  let built: ReturnType<typeof build> | undefined;
  const world = () => {
    built ??= build();
    return built;
  };
  return {
    get token() {
      return credentials.token;
    },
    get readOnlyToken() {
      return credentials.readOnlyToken;
    },
    credentials,
    get state() {
      return world().state;
    },
    get dialect() {
      return world().dialect;
    },
    get faults() {
      return world().faults;
    },
    answer: (request, response) => world().answer(request, response),
  };
}
