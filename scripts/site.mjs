// The documents as a site, in site/dist. Plain JavaScript: see bootstrap.mjs.
import { spawnSync } from 'node:child_process'
import { root } from './project-node.mjs'
import { ensureFolder, installFolder } from './vite-folder.mjs'

const program = 'node_modules/vitepress/bin/vitepress.js'

/**
 * @param node the project's own Node
 * @returns whether an up-to-date build exists; failures are reported
 */
export const ensureSite = node =>
  ensureFolder(
    {
      folder: 'site',
      label: 'Building the documents as a site',
      without: 'Everything but the site of the documents works without it.',
      sources: ['docs', 'site', 'package.json'],
      args: ['build.ts'],
      also: releases(),
    },
    node,
  )

/** The released versions, which the site also has: a new tag makes a build out of date. */
const releases = () =>
  spawnSync('git', ['-C', root, 'for-each-ref', '--format=%(refname) %(objectname)', 'refs/tags/v*'], {
    encoding: 'utf8',
  }).stdout ?? ''

/** @returns the command line for Node that serves the site and follows changes, to be run in `site` */
export async function siteServer(node, args) {
  await installFolder('site', node)
  return [program, 'dev', ...args]
}
