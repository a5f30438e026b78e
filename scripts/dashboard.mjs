// Builds the dashboard, which the control plane serves. Plain JavaScript: see bootstrap.mjs.
import { ensureFolder } from './vite-folder.mjs'

const own = ['index.html', 'package-lock.json', 'vite.config.ts', 'src', 'public'].map(name => `dashboard/${name}`)
const shared = ['appfile', 'client', 'compose', 'contract', 'lib/mount-point.ts', 'lib/posix-path.ts', 'stack']

/**
 * Builds the dashboard unless the build is up to date.
 * @param node the project's own Node
 * @returns whether an up-to-date build exists; if the build fails, prints the reason and returns false
 */
export const ensureDashboard = node =>
  ensureFolder(
    {
      folder: 'dashboard',
      label: 'Building the dashboard',
      without: 'Everything but the dashboard works without it.',
      sources: [...own, ...shared.map(name => `src/${name}`), 'templates'],
      args: ['node_modules/vite/bin/vite.js', 'build', '--logLevel', 'error'],
    },
    node,
  )
