// Builds the documentation site in site/dist. Plain JavaScript: see bootstrap.mjs.
import { spawnSync } from 'node:child_process'
import { root } from './project-node.mjs'
import { ensureFolder, installFolder } from './vite-folder.mjs'

const program = 'node_modules/vitepress/bin/vitepress.js'

/**
 * Builds the site unless the build is up to date.
 * @param node the project's own Node
 * @returns whether an up-to-date build exists; failures are reported
 */
export const ensureSite = node =>
  ensureFolder(
    {
      folder: 'site',
      label: 'Building the documentation site',
      without: 'Everything but the documentation site works without it.',
      sources: ['docs', 'site', 'package.json'],
      args: ['build.ts'],
      also: releases(),
    },
    node,
  )

/** Tags of released versions, whose documentation is part of the site: a new tag makes a build out of date. */
const releases = () =>
  spawnSync('git', ['-C', root, 'for-each-ref', '--format=%(refname) %(objectname)', 'refs/tags/v*'], {
    encoding: 'utf8',
  }).stdout ?? ''

/** Prepares the development server. @returns Node's arguments to serve the site and follow changes, run in `site` */
export async function siteServer(node, args) {
  await installFolder('site', node)
  return [program, 'dev', ...args]
}
