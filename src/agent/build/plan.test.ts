import { describe, expect, test } from 'vitest'
import { BuildFault } from './fault.ts'
import { planBuild } from './plan.ts'

const tree = (files: Readonly<Record<string, string>>, inPublic: readonly string[] = []) => ({
  names: new Set(Object.keys(files)),
  inPublic: new Set(inPublic),
  files: new Map(Object.entries(files)),
})
const json = (value: unknown) => JSON.stringify(value)

describe('planning a build', () => {
  test.each([
    ['a Dockerfile wins', tree({ Dockerfile: '', 'package.json': '{}' }), { kind: 'dockerfile', file: 'Dockerfile' }],
    ['a page', tree({ 'index.html': '' }), { kind: 'static', dir: '.' }],
    ['a page in public', tree({ 'README.md': '', public: '' }, ['index.html']), { kind: 'static', dir: 'public' }],
    [
      'node with a start script',
      tree({ 'package.json': json({ scripts: { start: 'node x.js', build: 'tsc' }, dependencies: { a: '1' } }) }),
      { kind: 'node', start: ['/bin/sh', '-c', 'exec node x.js'], install: 'install', builds: true, prunes: false },
    ],
    [
      'node with a lock file and a main file',
      tree({ 'package.json': json({ main: './web.js' }), 'web.js': '', 'package-lock.json': '' }),
      { kind: 'node', start: ['node', 'web.js'], install: 'ci', builds: false, prunes: false },
    ],
    ...[{ devDependencies: { a: '1' } }, { workspaces: ['b'], dependencies: { b: '*' } }].map(
      own =>
        [
          `node with what only its build needs: ${Object.keys(own)[0]}`,
          tree({ 'package.json': json({ main: 'web.js', ...own }), 'web.js': '' }),
          { kind: 'node', start: ['node', 'web.js'], install: 'install', builds: false, prunes: true },
        ] as const,
    ),
    [
      'a site that node builds',
      tree({ 'package.json': json({ scripts: { build: 'vite build' }, devDependencies: { vite: '5' } }) }),
      { kind: 'node-static', dir: 'dist', install: 'install' },
    ],
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
