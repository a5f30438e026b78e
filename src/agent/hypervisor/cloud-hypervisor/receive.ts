import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectIn } from '../../../lib/short-socket.ts'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { byteReader } from '../transfer/bytes.ts'
import { fileReceiver } from '../transfer/files.ts'
import { clearMark } from '../transfer/marks.ts'
import type { Wire } from '../transfer/wire.ts'
import { placeDisks } from '../vmm/boot.ts'
import type { Launched, LaunchPlan } from '../vmm/launch.ts'
import { title } from './cell.ts'
import { settingsHere } from './config.ts'
import { commands, passConfig, passPayload, type Peer, peerOver, readRequest, readResponse } from './protocol.ts'

const arrivingSocket = 'arriving.sock'
/** Timeout of the API call that receives a VM: the call returns when the whole migration has ended. */
const receiveMs = 24 * 3_600_000

/**
 * Receives a VM from another host by relaying each request of the source's Cloud Hypervisor to the local one. Resolves
 * when the guest runs on this host.
 */
export async function takeGuest(wire: Wire, plan: LaunchPlan, launched: Launched): Promise<void> {
  const { home } = plan
  const { cell, api, unlessGone } = launched
  const receiver = fileReceiver({
    [scratchFile]: join(home.dir, scratchFile),
    [configFile]: join(home.dir, configFile),
  })
  let peer: Peer | undefined
  const onLast = async () => {
    await launched.tap.bring()
    await clearMark(home.dir, 'arriving')
  }
  try {
    const requests = byteReader(tunnelOf(wire, receiver))
    const first = await readRequest(requests)
    const { tap } = await placeDisks({ title }, cell, plan)
    await launched.tap.make()
    const received = api.call(
      'PUT',
      '/vm.receive-migration',
      { receiver_url: `unix:${arrivingSocket}` },
      {
        timeoutMs: receiveMs,
      },
    )
    received.catch(() => undefined)
    peer = peerOver(await unlessGone(connectSoon(cell.dir)))
    await relay(first, requests, peer, wire, { tap, onLast })
    await unlessGone(received)
  } finally {
    await receiver.close()
    peer?.close()
  }
}

interface RelayHow {
  readonly tap: string
  /** Called before the agent relays the request after which the guest resumes on this host. */
  readonly onLast: () => Promise<void>
}

/** Relays the source's requests to the local VMM, and the VMM's responses to the source. */
async function relay(
  first: Awaited<ReturnType<typeof readRequest>>,
  requests: ReturnType<typeof byteReader>,
  peer: Peer,
  wire: Wire,
  { tap, onLast }: RelayHow,
): Promise<void> {
  for (let request = first; ; request = await readRequest(requests)) {
    const { command, header } = request
    const isLast = command === commands.complete || command === commands.completePaused
    if (isLast) await onLast()
    if (command === commands.config) {
      await passConfig(request, requests, peer.send, settings => settingsHere(settings, tap))
    } else {
      await peer.send(header)
      await passPayload(request, requests, peer.send)
    }
    if (command === commands.abandon) throw new Error('the source host canceled the migration')
    const { ok, bytes } = await readResponse(peer.from)
    await wire.tunnel(bytes)
    if (isLast && ok) return
    if (!ok)
      throw new Error(
        'Cloud Hypervisor on the target host refused the VM: the reason is in the file vmm.err of the VM there',
      )
  }
}

/** Writes files that the source's agent has sent, and yields the bytes of Cloud Hypervisor's own protocol. */
async function* tunnelOf(wire: Wire, files: ReturnType<typeof fileReceiver>): AsyncGenerator<Buffer> {
  for (;;) {
    const frame = await wire.next()
    if (frame?.kind === 'tunnel') yield frame.data
    else if (frame?.kind === 'data') await files.data(frame.offset, frame.data)
    else if (frame?.kind === 'message' && frame.message.say === 'file')
      await files.take(frame.message.name, frame.message.size)
    else throw new Error('the source host ended the transfer of the VM before all data was sent')
  }
}

/** Connects with retries: the VMM creates the migration socket a moment after the API call to receive a VM. */
async function connectSoon(dir: string) {
  const deadline = performance.now() + 10_000
  for (;;) {
    const socket = await connectIn(dir, arrivingSocket).catch(() => undefined)
    if (socket) return socket
    if (performance.now() > deadline)
      throw new Error('Cloud Hypervisor on the target host was not ready to receive the VM in time')
    await sleep(5)
  }
}
