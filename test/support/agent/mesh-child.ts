/**
 * Program that runs one host's WireGuard mesh and taps in a network namespace. Requests on stdin and responses on
 * stdout are lines of JSON; see mesh.test.ts.
 */
import { mkdir } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { run } from '../../../src/lib/exec.ts'
import { networkPlan } from '../../../src/agent/net/addresses.ts'
import { tapNetwork } from '../../../src/agent/net/tap.ts'
import { type Mesh, openMesh } from '../../../src/agent/mesh/mesh.ts'

const [, , dataDir = '', endpoint = '', subnet = ''] = process.argv
// Mount private directories: wireguard-go names its control socket after the device, and other network namespaces use
// the same device names.
for (const dir of ['/run/wireguard', '/run/mote']) {
  await mkdir(dir, { recursive: true })
  await run('mount', ['-t', 'tmpfs', 'tmpfs', dir])
}
let guestPlace = ''
const network = await tapNetwork({
  dataDir,
  subnet,
  makeDevice: name => `link add dev ${name} type veth peer name eth0 netns ${guestPlace}`,
})
const mesh: Mesh = await openMesh({
  dataDir,
  endpoint,
  device: 'wg-mote',
  rotateAfterMs: 3_600_000,
  ipv4: () => network.ipv4,
  onError: error => process.stderr.write(`${String(error)}\n`),
})

const connect = ({ vmId, place, ipv6Address }: { vmId: string; place: string; ipv6Address: string }) => {
  guestPlace = place
  return network.connect(vmId, 8080, networkPlan({ port: 8080, ipv6Address }))
}

const verbs: Record<string, (data: never) => Promise<unknown>> = {
  apply: mesh.apply,
  observed: mesh.observed,
  rotate: mesh.rotate,
  stop: mesh.stop,
  gateways: network.allowGateways,
  connect,
}
createInterface({ input: process.stdin })
  .on('line', line => {
    const { id, verb, data } = JSON.parse(line)
    verbs[verb]?.(data as never).then(
      result => process.stdout.write(`${JSON.stringify({ id, result })}\n`),
      (error: unknown) => process.stdout.write(`${JSON.stringify({ id, error: String(error) })}\n`),
    )
  })
  .on('close', () => process.exit())
