import { defineConfig } from 'rolldown';
import { packaging } from './scripts/packaging.ts';

/** See docs/adr/0009-one-package.md. */
// biome-ignore lint/style/noDefaultExport: rolldown requires it.
export default defineConfig({
  // The second entry runs in a worker thread.
  input: {
    main: 'src/launch.js',
    'chunks/password-worker': 'src/http/password-worker.ts',
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
