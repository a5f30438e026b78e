/** Frameworks of Node projects: how to detect each one, what serves it, and where its build writes. */
import { type Project, withoutComments } from '../project.ts'
import type { NodePackage } from './package.ts'

export interface Served {
  /** The output directory of a static site; null if the framework needs a server. */
  readonly staticDir: string | null
  /** The command that starts the framework's server if the project has no `start` script. */
  readonly start: string | null
}

interface Framework {
  readonly name: string
  readonly detect: (own: NodePackage, project: Project) => boolean
  readonly serve: (own: NodePackage, project: Project) => Served
}

const site = (staticDir: string): Served => ({ staticDir, start: null })
const server = (start: string | null): Served => ({ staticDir: null, start })
const uses = (dependency: string) => (own: NodePackage) => own.uses(dependency)

/** Returns the text of a framework's configuration file, without comments. */
const configOf = (project: Project, name: string) =>
  withoutComments(
    project
      .find(new RegExp(`^${name}\\.config\\.[cm]?[jt]s$`))
      .map(project.text)
      .join('\n'),
  )

const setting = (text: string, key: string) => new RegExp(`\\b${key}\\s*:\\s*["'\`]([^"'\`]+)`).exec(text)?.[1]
const plainDir = (dir: string | undefined, fallback: string) => dir?.replace(/^\.\/|(?<!\/)\/+$/g, '') ?? fallback

const viteDir = (own: NodePackage, project: Project) =>
  plainDir(
    /--outDir[= ](\S+)/.exec(own.script('build') ?? '')?.[1] ?? setting(configOf(project, 'vite'), 'outDir'),
    'dist',
  )

/**
 * Frameworks in the order in which they are tried. Vite comes after the frameworks whose projects also depend on Vite.
 */
export const frameworks: readonly Framework[] = [
  {
    name: 'next',
    detect: uses('next'),
    serve: (_, project) => {
      const config = configOf(project, 'next')
      return setting(config, 'output') === 'export'
        ? site(plainDir(setting(config, 'distDir'), 'out'))
        : server('next start -p $PORT')
    },
  },
  { name: 'nuxt', detect: uses('nuxt'), serve: () => server('node .output/server/index.mjs') },
  {
    name: 'react-router',
    detect: own => own.uses('@react-router/dev'),
    serve: (_, project) => {
      const config = configOf(project, 'react-router')
      const dir = plainDir(setting(config, 'buildDirectory'), 'build')
      return /\bssr\s*:\s*false\b/.test(config)
        ? site(`${dir}/client`)
        : server(`react-router-serve ./${dir}/server/index.js`)
    },
  },
  {
    name: 'remix',
    detect: own => own.uses('@remix-run/dev') || own.uses('@remix-run/node'),
    serve: () => server('remix-serve ./build/server/index.js'),
  },
  {
    name: 'sveltekit',
    detect: uses('@sveltejs/kit'),
    serve: own => (own.uses('@sveltejs/adapter-static') ? site('build') : server('node build')),
  },
  {
    name: 'tanstack-start',
    detect: own => own.uses('@tanstack/react-start') || own.uses('@tanstack/solid-start'),
    serve: own =>
      server(
        own.uses('nitro') ? 'node .output/server/index.mjs' : 'npx srvx --prod -s ../client dist/server/server.js',
      ),
  },
  {
    name: 'astro',
    detect: uses('astro'),
    serve: (_, project) => {
      const config = configOf(project, 'astro')
      return setting(config, 'output') === 'server' || /\badapter\s*:/.test(config)
        ? server('HOST=0.0.0.0 node dist/server/entry.mjs')
        : site(plainDir(setting(config, 'outDir'), 'dist'))
    },
  },
  { name: 'expo', detect: uses('expo'), serve: () => site('dist') },
  { name: 'create-react-app', detect: uses('react-scripts'), serve: () => site('build') },
  {
    name: 'angular',
    detect: (_, project) => project.has('angular.json'),
    serve: (_, project) => site(angularDir(project)),
  },
  { name: 'gatsby', detect: uses('gatsby'), serve: () => site('public') },
  { name: 'docusaurus', detect: uses('@docusaurus/core'), serve: () => site('build') },
  { name: 'eleventy', detect: uses('@11ty/eleventy'), serve: () => site('_site') },
  { name: 'vue-cli', detect: uses('@vue/cli-service'), serve: () => site('dist') },
  { name: 'vite', detect: uses('vite'), serve: (own, project) => site(viteDir(own, project)) },
]

/** Returns the output directory: `outputPath` of angular.json, otherwise the default of Angular's builder. */
function angularDir(project: Project): string {
  const text = project.text('angular.json')
  const name = /"projects"\s*:\s*\{\s*"([^"]+)"/.exec(text)?.[1] ?? 'app'
  const dir = /"outputPath"\s*:\s*"([^"]+)"/.exec(text)?.[1] ?? `dist/${name}`
  return /:application"/.test(text) ? `${dir}/browser` : dir
}
