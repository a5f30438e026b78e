// Not repeated on the distribution's PostgreSQL: this file tests the registry, not the database.
/**
 * Runs the conformance suite of the OCI distribution specification against the installation's own registry, with its
 * access tokens. The suite is a Go module, which is fetched from the Go module proxy.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { testDir } from '../support/agent/agent.ts'
import { accessToken, registrySystem } from '../support/push-registry.ts'
import { childEnv } from '../../src/lib/child-env.ts'
import { CommandError, run } from '../../src/lib/exec.ts'
import { hasProgram } from '../../src/lib/programs.ts'

const suite = 'github.com/opencontainers/distribution-spec/conformance'
const version = 'v0.0.0-20260831232431-97274622c111'

const needs: string[] = []
for (const name of ['docker-registry', 'go']) if (!(await hasProgram(name))) needs.push(name)

/**
 * Settings that disable tests of features that the registry program (distribution 2.8) lacks, because it is older than
 * version 1.1 of the specification.
 */
const unsupported = {
  OCI_VERSION: '1.0',
  OCI_API_REFERRER: 'false',
  OCI_API_TAGS_DELETE: 'false',
  OCI_DATA_NONDISTRIBUTABLE: 'false',
  OCI_DATA_SHA512: 'false',
  OCI_DATA_SUBJECT: 'false',
  OCI_DATA_SUBJECT_LIST: 'false',
}

/**
 * Tests that distribution 2.8 also fails without access tokens: invalid requests that it does not reject as the suite
 * expects.
 */
const knownFailures = [
  'sha256 blobs/chunked out-of-order/blob-patch-chunked',
  'sha256 blobs/chunked out-of-order and put chunk/blob-patch-chunked',
  'sha256 blobs/range requests/range 500-0',
  'sha256 blobs/range requests/range 5000-10000',
  'invalid-digest-format/manifest-put',
  'invalid-digest-format/manifest-get',
]

test.skipIf(needs.length > 0)(
  `the registry passes the conformance suite of OCI behind access tokens (needs ${needs.join(', ') || 'nothing'})`,
  { timeout: 300_000 },
  async context => {
    await using dir = await testDir()
    const program = join(dir.path, 'conformance')
    const built = await buildSuite(dir.path).catch((cause: unknown) => cause)
    if (built instanceof CommandError) context.skip(`the suite cannot be fetched or compiled: ${built.message}`)
    await using own = await registrySystem()
    const ann = await own.system.user()
    const env = {
      ...unsupported,
      OCI_REGISTRY: own.host,
      OCI_TLS: 'disabled',
      OCI_REPO1: `${ann.project}/one`,
      OCI_REPO2: `${ann.project}/two`,
      OCI_USERNAME: 'ci',
      OCI_PASSWORD: await accessToken(ann, ['write']),
      OCI_RESULTS_DIR: join(dir.path, 'results'),
    }
    // Ignore the exit code, which is 1 because of the known failures.
    await run(program, [], { cwd: dir.path, timeoutMs: 120_000, env }).catch(() => undefined)
    const junit = await readFile(join(dir.path, 'results', 'junit.xml'), 'utf8')
    const cases = [...junit.matchAll(/<testcase name="OCI Conformance Test\/([^"]*)"[^>]* status="(\w+)"/g)]
    const failed = cases.filter(([, , status]) => status !== 'passed' && status !== 'skipped' && status !== 'disabled')
    expect(failed.map(([, name]) => name)).toEqual(knownFailures)
    // At least one test of each category has passed: pulls, pushes, content discovery and content management.
    const passed = (name: RegExp) => cases.filter(one => one[2] === 'passed' && name.test(one[1] ?? '')).length
    for (const name of [/pull/, /push/, /tag-list|tag list/, /manifest-delete/, /blob-delete/, /blob-mount/])
      expect(passed(name), String(name)).toBeGreaterThan(0)
    expect(passed(/./)).toBeGreaterThan(400)
  },
)

/** Fetches and compiles the suite. @throws CommandError without network, or if Go is too old */
async function buildSuite(dir: string): Promise<void> {
  const { GOPROXY, GOMODCACHE, GOCACHE, HTTPS_PROXY } = process.env
  const given = Object.entries({ GOPROXY, GOMODCACHE, GOCACHE, HTTPS_PROXY })
  const env = {
    ...childEnv('go', { network: true }),
    ...Object.fromEntries(given.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))),
    GOBIN: dir,
  }
  await run('go', ['install', `${suite}@${version}`], { env, timeoutMs: 180_000 })
}
