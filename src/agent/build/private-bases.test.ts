/** Private base images in Dockerfiles: which ones are found, and a real build that starts from one. */
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { testAgent, testDir } from '../../../test/support/agent/agent.ts'
import { gitServer } from '../../../test/support/agent/build.ts'
import { answerOf, buildOn } from '../../../test/support/agent/build-real.ts'
import { driverCases } from '../../../test/support/agent/hypervisor.ts'
import { startRegistry, tokenServer } from '../../../test/support/agent/private-registry.ts'
import { type RegistryLoginRequest, subjects } from '../../contract/agent.ts'
import { run } from '../../lib/exec.ts'
import { agentConfig } from '../base/config.ts'
import { writeSampleImage } from '../image/sample.ts'
import { instructionsOf } from './dockerfile.ts'
import { imagesOf } from './private-bases.ts'
import { hasToolImage } from './tool-images.ts'

describe('the images that a Dockerfile names', () => {
  const digest = `sha256:${'a'.repeat(64)}`
  test.for([
    ['FROM a.example/x:1', ['a.example/x:1']],
    ['from --platform=linux/amd64 a.example/x:1 as One\nFROM one\nCOPY --from=one /a /b', ['a.example/x:1']],
    ['FROM scratch\nCOPY --from=b.example/y /a /b\nCOPY --from=0 /a /b', ['b.example/y']],
    ['FROM x\nRUN --mount=type=bind,from=c.example/z:2,target=/z true', ['x', 'c.example/z:2']],
    [`FROM a.example/x@${digest}`, [`a.example/x@${digest}`]],
    ['ARG V=1\nARG R="a.example"\nFROM $R/x:${V}\nFROM ${NONE:-b.example}/y', ['a.example/x:1', 'b.example/y']],
    ['ARG TAG=old\nFROM a.example/x:$TAG', ['a.example/x:new']],
    ['# FROM no.example/x\nFROM \\\n  # a comment\n  a.example/x:1', ['a.example/x:1']],
    ['FROM a.example/x:1\nFROM a.example/x:1', ['a.example/x:1']],
    ['FROM $UNKNOWN\nFROM ../x\nFROM oci:local\nFROM', []],
    ['', []],
  ] as const)('are found in %j', ([text, images]) => {
    expect(imagesOf(instructionsOf(text), { TAG: 'new' })).toEqual(images)
  })

  test('are limited to 16', () => {
    const many = Array.from({ length: 40 }, (_, n) => `FROM a.example/x:${n}`).join('\n')
    expect(imagesOf(instructionsOf(many), {})).toHaveLength(16)
  })
})

const [gvisor] = (await driverCases()).filter(({ spec }) => spec.hypervisor === 'gvisor')
const { cacheDir } = agentConfig({ dataDir: '/', hostName: 'test' })
const programs = ['docker-registry', 'skopeo'].filter(name => !existsSync(`/usr/bin/${name}`))
const lacking = [
  ...programs,
  ...(hasToolImage(cacheDir, 'builder') ? [] : ['image builder: mote image build builder']),
  ...(gvisor?.skip === false ? [] : ['gVisor']),
]

test.skipIf(lacking.length > 0)(
  `a build starts from private images, and its layers, log and files do not contain the credential (needs ${lacking.join(', ') || 'nothing'})`,
  { timeout: 600_000 },
  async () => {
    await using dir = await testDir()
    await using tokens = await tokenServer()
    await using registry = await startRegistry(dir.path, tokens.url)
    await using git = await gitServer()
    const registries = [{ host: registry.host, plainHttp: true }]
    await using host = await testAgent({ ...gvisor?.config, registries })
    await host.agent.probed
    const layout = join(dir.path, 'hello')
    const digest = await writeSampleImage(layout)
    const policy = join(dir.path, 'policy.json')
    await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
    const flags = ['--policy', policy, 'copy', '-q', '--preserve-digests', '--dest-tls-verify=false']
    const target = `${registry.host}/team/hello`
    await run('skopeo', [...flags, '--dest-creds', 'user:secret', `oci:${layout}:latest`, `docker://${target}:1`])
    const asked: RegistryLoginRequest[] = []
    let password = 'secret'
    await host.bus.serve(subjects.allRegistryLogins, data => {
      const request = data as RegistryLoginRequest
      asked.push(request)
      const isOurs = request.image?.startsWith(registry.host)
      return { login: isOurs ? { host: registry.host, username: 'user', password } : null }
    })
    // The registry listens on the host's loopback, which the guest cannot reach.
    const files = {
      Dockerfile: `ARG BASE
FROM $BASE:1
FROM ${target}@${digest}
COPY index.html /www/
RUN ["/bin/busybox", "sh", "-c", "/bin/busybox env; /bin/busybox grep -rs '[s]ecret' /run /etc /root /tmp || true"]
`,
      'index.html': 'from a private image',
    }
    const change = { hypervisor: 'gvisor', settings: { dockerfile: '', args: { BASE: target }, secrets: {} } } as const
    const { image, log } = await buildOn(host, git, files, { ...change, appId: 'private' })
    expect(asked.map(one => one.image)).toEqual([`${target}:1`, `${target}@${digest}`])
    expect(log).toContain(`fetching ${target}:1 with the registry credential of the project`)
    expect(log).not.toContain('secret')
    expect(await answerOf(host, 'private-1', image, 'gvisor')).toBeTruthy()
    const blobs = join(host.config.imageDir, 'app-private', 'blobs/sha256')
    for (const name of await readdir(blobs)) {
      const bytes = await readFile(join(blobs, name))
      expect((bytes[0] === 0x1f ? gunzipSync(bytes) : bytes).includes('user:secret')).toBe(false)
    }
    password = 'wrong'
    await expect(buildOn(host, git, files, { ...change, appId: 'refused' })).rejects.toThrow(
      new RegExp(`^Cannot fetch ${target}:1: `),
    )
  },
)
