import { defineConfig } from 'rolldown';
import { packaging } from './scripts/packaging.ts';

/** See docs/adr/0009-one-package.md. */
// biome-ignore lint/style/noDefaultExport: rolldown requires it.
export default defineConfig({
  // tinypool loads the other entries in a worker thread, `entry/worker.js` from the folder of its own chunk.
  input: {
    main: 'src/launch.js',
    'chunks/password-worker': 'src/http/password-worker.ts',
    'chunks/entry/worker': 'node_modules/tinypool/dist/entry/worker.js',
  },
  platform: 'node',
  plugins: [packaging],
  output: {
    dir: 'dist',
    cleanDir: true,
    format: 'cjs',
    chunkFileNames: 'chunks/[name].js',
  },
});
