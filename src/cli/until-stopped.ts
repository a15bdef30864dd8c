/** Resolves with the name of the first SIGTERM or SIGINT. A second signal ends the process. */
export function untilStopped(): Promise<NodeJS.Signals> {
  return new Promise(resolve => {
    const signals = ['SIGTERM', 'SIGINT'] as const;
    const onSignal = (signal: NodeJS.Signals) => {
      for (const each of signals) process.off(each, onSignal);
      resolve(signal);
    };
    for (const signal of signals) process.on(signal, onSignal);
  });
}

/** Returns an AbortSignal that is aborted by the first SIGTERM or SIGINT. */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  void untilStopped().then(signal => stop.abort(new Error(`stopped by ${signal}`)));
  return stop.signal;
}
