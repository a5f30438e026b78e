import { expect, it } from 'vitest'
import { failureLine } from './failure-line.ts'

it('the failure line is the last one that reports an error, without color codes', () => {
  expect(
    failureLine([
      'added 12 packages',
      "\u001b[31mError: Cannot find module 'left-pad'\u001b[0m",
      '    at node:internal/modules/cjs/loader:1228:15',
      '',
      'npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log',
      'still running; no output for 30 s',
      'building took 31 s',
      'the workload ended with code 1',
      'the program exited with code 1',
    ]),
  ).toBe("Error: Cannot find module 'left-pad'")
  expect(failureLine(['go: downloading', './main.go:7:2: undefined: x', 'exit status 1'])).toBe(
    './main.go:7:2: undefined: x',
  )
})

it('the error that a command printed is preferred over the line that the command failed', () => {
  const lines = ['npm run build', 'compiling', 'Error: no such module foo', 'npm run build: failed after 3 s']
  expect(failureLine([...lines, 'building took 31 s'])).toBe('Error: no such module foo')
  expect(failureLine(['sh check', 'made', 'sh check: failed after 0 s'])).toBe('sh check: failed after 0 s')
})

it('without an error in the log, the failure line is the last line; an empty log has none', () => {
  expect(failureLine(['building', 'stopped here', ''])).toBe('stopped here')
  expect(failureLine(['', ' '])).toBeUndefined()
})

it('the failure line has at most 300 characters and comes from the last 60 lines', () => {
  expect(failureLine([`error ${'x'.repeat(100_000)}`])).toHaveLength(300)
  expect(failureLine(['error first', ...Array.from({ length: 80 }, () => 'fine')])).toBe('fine')
})

it.each([
  [
    'pip, which compiles',
    [
      'Error: pg_config executable not found.',
      'note: This error originates from a subprocess, and is likely not a problem with pip.',
      'error: subprocess-exited-with-error',
    ],
    'Error: pg_config executable not found.',
  ],
  [
    'pip, which clones',
    [
      '× git clone --quiet https://github.com/a/b /tmp/b did not run successfully.',
      '│ exit code: 128',
      '╰─> See above for output.',
      'note: This error originates from a subprocess',
    ],
    '× git clone --quiet https://github.com/a/b /tmp/b did not run successfully.',
  ],
  [
    'PDM on a replaced Python',
    [
      'using Python 3.13.5 of Debian: Python >=3.11 cannot be downloaded from GitHub',
      "[AttributeError]: module 'a' has no attribute 'b'",
      "WARNING: Add '-v' to see the detailed traceback",
    ],
    "[AttributeError]: module 'a' has no attribute 'b'",
  ],
  [
    'Pipenv',
    [
      'Warning: Your Pipfile requires "python_version" 3.9',
      'Pipfile requires Python 3.9',
      '[DeployException]:       raise exceptions.DeployException',
      'ERROR:: Aborting deploy',
    ],
    'Pipfile requires Python 3.9',
  ],
  [
    'uv',
    [
      'error: The lockfile at `uv.lock` needs to be updated, but `--locked` was provided.',
      '',
      'hint: To update the lockfile, run `uv lock`.',
    ],
    'error: The lockfile at `uv.lock` needs to be updated, but `--locked` was provided.',
  ],
  [
    'node-gyp',
    ['npm error gyp ERR! stack Error: connect ECONNREFUSED', 'npm error gyp ERR! not ok'],
    'npm error gyp ERR! stack Error: connect ECONNREFUSED',
  ],
  [
    'node-gyp of pnpm, without internet',
    [
      '.../a install: gyp ERR! configure error ',
      '.../a install: gyp ERR! stack Error: This is most likely not a problem with node-gyp or the package itself and',
      '.../a install: gyp ERR! stack network settings.',
      '.../a install: gyp ERR! System Linux 4.4.0',
      '.../a install: gyp ERR! command "/usr/bin/node" "/usr/bin/node-gyp.js" "rebuild"',
      '.../a install: gyp ERR! cwd /src/node_modules/a',
      '.../a install: gyp ERR! $npm_package_name a',
      '.../a install: gyp ERR! not ok',
      '.../a install: Failed',
      '[ELIFECYCLE] Command failed with exit code 1.',
    ],
    '.../a install: gyp ERR! stack Error: This is most likely not a problem with node-gyp or the package itself and',
  ],
  [
    'node-gyp, whose compiler fails',
    [
      'npm error ../a.cc:1:10: fatal error: b.h: No such file or directory',
      'npm error make: *** [a.target.mk:110: Release/obj.target/a.o] Error 1',
      'npm error gyp ERR! build error',
      'npm error gyp ERR! stack Error: `make` failed with exit code: 2',
      'npm error gyp ERR! node -v v24.1.0',
    ],
    'npm error ../a.cc:1:10: fatal error: b.h: No such file or directory',
  ],
  [
    'Next.js',
    [
      '`next/font` error:',
      'Failed to fetch `Geist` from Google Fonts.',
      '',
      '> Build failed because of webpack errors',
    ],
    'Failed to fetch `Geist` from Google Fonts.',
  ],
  [
    'pnpm',
    ['src/a.ts(1,1): error TS2304: Cannot find name "x".', ' ELIFECYCLE  Command failed with exit code 2.'],
    'src/a.ts(1,1): error TS2304: Cannot find name "x".',
  ],
])('general messages that a tool prints after an error are skipped: %s', (_, lines, reason) =>
  expect(failureLine([...lines, 'the command: failed after 3 s', 'building took 4 s'])).toBe(reason),
)
