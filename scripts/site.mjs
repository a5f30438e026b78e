// Builds the documentation site in site/dist. Plain JavaScript: see bootstrap.mjs.
import { spawnSync } from 'node:child_process'
import { root } from './project-node.mjs'
import { ensureFolder, installFolder } from './vite-folder.mjs'

const program = 'node_modules/vitepress/bin/vitepress.js'

/**
 * Builds the site unless the build is up to date.
 * @param node the project's own Node
 * @returns whether an up-to-date build exists; if the build fails, prints the reason and returns false
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

/**
 * Returns the tags of released versions. The site contains the documentation of each, so a new tag makes an existing
 * build out of date.
 */
const releases = () =>
  spawnSync('git', ['-C', root, 'for-each-ref', '--format=%(refname) %(objectname)', 'refs/tags/v*'], {
    encoding: 'utf8',
  }).stdout ?? ''

/**
 * Prepares the development server.
 * @returns the arguments with which Node, run in the folder `site`, serves the site and follows changes of its sources
 */
export async function siteServer(node, args) {
  await installFolder('site', node)
  return [program, 'dev', ...args]
}
