import { join } from 'node:path';
import { build } from 'esbuild';

/** Bundles the page as `main.js` and `main.css` in `folder`. */
export async function bundlePage(folder: string): Promise<void> {
  await build({
    entryPoints: [join(import.meta.dirname, 'page/main.tsx')],
    outdir: folder,
    bundle: true,
    format: 'esm',
    jsx: 'automatic',
    minify: true,
    logLevel: 'error',
    define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
    loader: { '.svg': 'dataurl', '.woff': 'dataurl', '.woff2': 'dataurl', '.ttf': 'dataurl' },
  });
}
