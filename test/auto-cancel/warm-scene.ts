import { createScene } from '../support/auto-cancel-scene.ts';

export async function warmScene(section: object) {
  const scene = await createScene(section);
  await scene.warm();
  return scene;
}

/** How many were sent, as a walk told. */
export const sentIn = (told: string) => told.split('\n').filter(line => line.startsWith('intent')).length;
/** Why others were left alone. */
export const reasonsIn = (told: string) => [
  ...new Set(told.split('\n').flatMap(line => /^left \w+ (\w+)/.exec(line)?.[1] ?? [])),
];
