import { rule } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';

/** Creates a scene with a process that has completed enough walks to act. */
export async function warmScene(section: object = { rules: [rule('jobs')] }) {
  const scene = await createScene(section);
  await scene.warm();
  return scene;
}

/** Returns the number of intents in a walk's result. */
export const sentIn = (result: string) => result.split('\n').filter(line => line.startsWith('intent')).length;
/** Returns the skip reasons in a walk's result. */
export const reasonsIn = (result: string) => [
  ...new Set(result.split('\n').flatMap(line => /^left \w+ (\w+)/.exec(line)?.[1] ?? [])),
];
