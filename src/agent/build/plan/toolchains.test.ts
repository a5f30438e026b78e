import { describe, expect, test } from 'vitest'
import { goToolchainOf, pythonRequest, rustToolchainOf, toolRequirement } from './toolchains.ts'

const from = { file: 'go.mod', line: 3 }
const go = (version: string) => goToolchainOf({ tool: 'go', version, from })

describe('the Go toolchain', () => {
  test.each([
    ['1.16', undefined],
    ['1.24', undefined],
    ['1.24.13', '1.25.14'],
    ['1.22.1', undefined],
    ['1.26', '1.26.11'],
    ['1.26.11', '1.26.11'],
    ['1.26.12', '1.27.4'],
    ['1.27rc1', '1.27.4'],
  ])('for version %s is %s', (version, found) => expect(go(version)?.version).toBe(found))

  test('for a project that names no version is downloaded with a checksum', () => {
    expect(goToolchainOf({ tool: 'go', version: '1.26', from: null })).toEqual({
      version: '1.26.11',
      url: 'https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go1.26.11.linux-amd64.zip',
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
  })

  test('for a version that is too new is refused with the line number', () => {
    expect(() => go('1.99')).toThrow(/^go\.mod, line 3: Go 1\.99 is not available\. The newest is 1\.27\.4\.$/)
  })
})

test.each([
  ['3.13', '3.13'],
  ['3.12.*', '3.12'],
  ['>=3.9,<4', '>=3.9,<4'],
  ['^3.11', '>=3.11,<4'],
  ['~3.11', '>=3.11,<3.12'],
  ['~=3.11', '~=3.11'],
])('Python %s is requested from uv as %s', (version, request) => expect(pythonRequest(version)).toBe(request))

test.each([
  ['latest', null, 'uv'],
  ['0.9.5', { file: 'mise.toml', line: 2 }, 'uv==0.9.5'],
  ['>=0.5,<1', { file: 'pyproject.toml', line: 2 }, 'uv>=0.5,<1'],
])(
  'a project that names the version %s of uv gets uv from pip with this version requirement',
  (version, place, requirement) => expect(toolRequirement({ tool: 'uv', version, from: place })).toBe(requirement),
)

test.each([
  ['latest', 'mise.toml', 'stable'],
  ['1.70', 'Cargo.toml', 'stable'],
  ['nightly', 'rust-toolchain', 'nightly'],
  ['1.84.0', 'mise.toml', '1.84.0'],
])('version %s in %s selects the Rust toolchain %s', (version, file, toolchain) => {
  expect(rustToolchainOf({ tool: 'rust', version, from: { file, line: 1 } })).toBe(toolchain)
})
