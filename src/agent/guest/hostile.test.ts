/**
 * Root in a guest can replace Mote's init. Whatever it sends, the agent keeps working, and the VM is marked as broken.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { openConsole } from '../hypervisor/console.ts'
import { parseWorkload } from '../hypervisor/running-vm.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { ExecResult, parseWords, Status, TwoCounts } from './answers.ts'
import { openGuest } from './channel.ts'
import { execInGuest, programsOf } from './exec.ts'
import { GuestFault } from './fault.ts'
import { type Frame, frameReader } from './frames.ts'
import { lastingGuest } from './lasting.ts'
import { testPorts } from '../../../test/support/agent/guest.ts'

const opened = async () => {
  const both = await testPorts()
  const frames: Frame[] = []
  const exits: number[] = []
  const faults: GuestFault[] = []
  const events = {
    onFrames: (some: readonly Frame[]) => void frames.push(...some),
    onStarted: () => undefined,
    onExit: (code: number) => void exits.push(code),
    onBroken: (fault: GuestFault) => void faults.push(fault),
  }
  return { both, frames, exits, faults, events }
}

const mib = Buffer.alloc(1 << 20, 'x')
/** Sends the data repeatedly until the host closes the connection, at most 64 times. */
const flood = async (end: Awaited<ReturnType<Awaited<ReturnType<typeof testPorts>>['end']>>, data: Buffer) => {
  for (let n = 0; n < 64 && !end.socket.destroyed; n++) await end.send(data)
}

describe('an invalid message of a guest closes its ports and is reported once', () => {
  const controls: ReadonlyArray<readonly [string, string | Buffer]> = [
    ['an endless line', mib],
    ['an exit code that is not an integer', '* exit 1.5\n'],
    ['an exit code above 255', '* exit 256\n'],
    ['a negative exit code', '* exit -1\n'],
    ['an exit code that is not a number', '* exit NaN\n'],
    ['an exit without a code', '* exit\n'],
    ['an exit with more than a code', '* exit 1 2\n'],
  ]
  it.each(controls)('control port: %s', async (_, data) => {
    const { both, exits, faults, events } = await opened()
    await using _ports = both
    const guest = await openGuest(both.ports, 0, events)
    guest.ready.catch(() => undefined)
    const control = await both.end('control')
    const asked = guest.request('net', 30_000)
    asked.catch(() => undefined)
    await flood(control, Buffer.from(data))
    await guest.closed
    await expect(asked).rejects.toThrow(GuestFault)
    expect([exits, faults.length]).toEqual([[], 1])
    expect(faults[0]?.message).toMatch(/violated the protocol/)
  })

  const logs: ReadonlyArray<readonly [string, (nonce: string) => string | Buffer]> = [
    ['a frame of a terabyte', nonce => `\nH ${nonce} 1 1\nL 1 1 1 999999999999\n`],
    ['a frame that is a byte too long', nonce => `\nH ${nonce} 1 1\nL 1 1 1 8193\n`],
    ['a header without an end', nonce => `\nH ${nonce} 1 1\n${'L'.repeat(5000)}`],
    ['an endless hello', nonce => `\nH ${nonce} ${'1'.repeat(5000)}`],
    ['a hello without numbers', nonce => `\nH ${nonce} a b\n`],
    ['lines without frames', nonce => `\nH ${nonce} 1 1\n${'\n'.repeat(100_000)}`],
    ['numbers without end', nonce => `\nH ${nonce} 1 1\n${`L ${'9'.repeat(40)} 1 1 0\n\n`.repeat(100)}`],
  ]
  it.each(logs)('log port: %s', async (_, data) => {
    const { both, frames, faults, events } = await opened()
    await using _ports = both
    const guest = await openGuest(both.ports, 0, events)
    guest.ready.catch(() => undefined)
    const log = await both.end('log')
    const nonce = await until(() => /^from 0 (\w+)$/.exec(log.lines()[1] ?? '')?.[1], { what: 'the host asks' })
    await flood(log, Buffer.from(data(nonce)))
    await guest.closed
    expect([frames, faults.length]).toEqual([[], 1])
  })

  it('vsock: the agent does not reconnect after a violation', async () => {
    const { both, faults, events } = await opened()
    await using _ports = both
    const guest = lastingGuest(both.ports, 0, events, () => true)
    guest.ready.catch(() => undefined)
    await (await both.end('control')).send('* exit 1.5\n')
    await guest.closed
    expect([faults.length, both.connections()]).toEqual([1, 1])
  })

  it('vsock: the agent does not reconnect after an invalid first answer', async () => {
    const { both, faults, events } = await opened()
    await using _ports = both
    const guest = lastingGuest(both.ports, 0, events, () => true)
    guest.ready.catch(() => undefined)
    const control = await both.end('control')
    const id = await until(() => /^(\S+) status$/.exec(control.lines()[1] ?? '')?.[1], { what: 'the host asks' })
    await control.send(`${id} ok exited 1e300\n`)
    await guest.closed
    expect([faults.length, both.connections()]).toEqual([1, 1])
  })
})

describe("a guest's answers are limited", () => {
  it('the output of a program is truncated at 1 MiB, whatever the guest sends', async () => {
    const { both, events } = await opened()
    await using _ports = both
    const guest = await openGuest(both.ports, 0, events)
    guest.ready.catch(() => undefined)
    const running = execInGuest(guest, ['yes'], 30_000)
    const control = await both.end('control')
    const id = await until(() => /^(\S+) exec/m.exec(control.lines().at(-2) ?? '')?.[1], { what: 'the host asks' })
    for (let n = 0; n < 600; n++) await control.send(`${id} o ${'y'.repeat(4096)}\n`)
    await control.send(`${id} ok 0 0\n`)
    const { stdout, truncated } = await running
    expect([stdout.length, truncated]).toEqual([1 << 20, true])
    guest.close()
  })

  it('a control character counts with its escaped length in JSON, so that an answer stays below 2 MiB', async () => {
    const { both, events } = await opened()
    await using _ports = both
    const guest = await openGuest(both.ports, 0, events)
    guest.ready.catch(() => undefined)
    const running = execInGuest(guest, ['dd'], 30_000)
    const control = await both.end('control')
    const id = await until(() => /^(\S+) exec/m.exec(control.lines().at(-2) ?? '')?.[1], { what: 'the host asks' })
    await control.send(`${id} o ${'y%0a'.repeat(1000)}\n`)
    for (let n = 0; n < 256; n++) await control.send(`${id} o ${'%00'.repeat(4096)}\n`)
    await control.send(`${id} ok 0 0\n`)
    const answer = await running
    expect(answer.stdout.startsWith('y\ny\n')).toBe(true)
    expect(answer.stdout.length).toBe(2_000 + Math.floor(((1 << 20) - 2_000) / 6))
    expect([JSON.stringify(answer).length < 2 << 20, answer.truncated]).toEqual([true, true])
    guest.close()
  })

  it('at most eight programs run at once, also in a guest that never answers', async () => {
    const { both, events } = await opened()
    await using _ports = both
    const guest = await openGuest(both.ports, 0, events)
    guest.ready.catch(() => undefined)
    const exec = programsOf(guest)
    const running = Array.from({ length: 8 }, () => exec(['sleep'], 30_000).catch((error: unknown) => String(error)))
    await expect(exec(['sleep'], 30_000)).rejects.toMatchObject({ code: 'exec_failed' })
    guest.close()
    expect(await Promise.all(running)).toHaveLength(8)
  })

  it('the text of a refusal is truncated and has no control characters', async () => {
    const { both, events } = await opened()
    await using _ports = both
    const guest = await openGuest(both.ports, 0, events)
    guest.ready.catch(() => undefined)
    const asked = guest.request('thaw', 30_000)
    asked.catch(() => undefined)
    const control = await both.end('control')
    const id = await until(() => /^(\S+) thaw/m.exec(control.lines().at(-2) ?? '')?.[1], { what: 'the host asks' })
    await control.send(`${id} err \x1b[2J${'x'.repeat(9000)}\n`)
    const reason: unknown = await asked.catch((error: unknown) => error)
    expect(String(reason)).toMatch(/^GuestRefusal: the guest answered: \?\[2Jx{100,300}$/)
    guest.close()
  })

  it('lines of the control port are read at a limited rate, and excess lines wait in the guest', async () => {
    const { both, faults, events } = await opened()
    await using _ports = both
    const guest = await openGuest(both.ports, 0, events)
    guest.ready.catch(() => undefined)
    const control = await both.end('control')
    const lines = Buffer.from('a b\n'.repeat(1 << 18))
    control.socket.write(Buffer.concat([lines, lines]))
    await until(() => control.socket.bytesWritten > 0 && control.socket.writableLength > 0, { what: 'the guest waits' })
    expect(faults).toEqual([])
    guest.close()
  })
})

describe("the agent reads a guest's output at a limited rate", () => {
  it('log port: of a flood of empty lines, all but the first four thousand wait in the guest', async () => {
    const { both, frames, faults, events } = await opened()
    await using _ports = both
    const guest = await openGuest(both.ports, 0, events)
    guest.ready.catch(() => undefined)
    const log = await both.end('log')
    const nonce = await until(() => /^from 0 (\w+)$/.exec(log.lines()[1] ?? '')?.[1], { what: 'the host asks' })
    const startedMs = performance.now()
    const lines = Array.from({ length: 16_000 }, (_, n) => `L ${n + 1} 1 1 0\n\n`)
    log.socket.write(`\nH ${nonce} 1 1\n${lines.join('')}`)
    await until(() => frames.length >= 12_000, { what: 'the lines come' })
    const [burst, perSecond] = [4096, 4096]
    // The host always handles a chunk completely; one of 64 KiB contains 5,000 empty log lines.
    expect(performance.now() - startedMs).toBeGreaterThan(((12_000 - burst - 6_000) / perSecond) * 1000)
    expect(faults).toEqual([])
    guest.close()
  })

  it('console: output beyond 1 MiB waits in the guest', async () => {
    await using dir = await testDir()
    const server = createServer()
    await once(server.listen(join(dir.path, 'console.sock')), 'listening')
    const accepted = once(server, 'connection')
    const end = await openConsole(dir.path)
    const [socket] = await accepted
    const written = Buffer.alloc(32 << 20, 'x')
    socket.on('error', () => undefined).write(written)
    await until(() => end.tail().length > 0, { what: 'the console is read' })
    expect(socket.writableLength).toBeGreaterThan(0)
    socket.write('the end')
    expect(end.tail().endsWith('the end')).toBe(false)
    end.close()
    server.close()
  })
})

describe('random answers of a guest', () => {
  const words = fc.array(fc.oneof(fc.string({ maxLength: 20 }), fc.double().map(String), fc.bigInt().map(String)), {
    maxLength: 4,
  })
  it.each([
    ['status', Status],
    ['two counts', TwoCounts],
    ['a result', ExecResult],
  ] as const)('parsed as %s yield counts that JSON and PostgreSQL accept, or a GuestFault', (_, schema) => {
    fc.assert(
      fc.property(words, said => {
        try {
          for (const word of parseWords(schema, said.join(' ')))
            expect(typeof word === 'string' || Number.isSafeInteger(word)).toBe(true)
        } catch (error) {
          if (!(error instanceof GuestFault)) throw error
        }
      }),
    )
  })

  it('exit codes are limited to the range that the VM record accepts', () => {
    expect(parseWorkload('exited 137')).toEqual({ state: 'exited', code: 137 })
    expect(parseWorkload('running 7')).toEqual({ state: 'running' })
    for (const text of ['exited', 'exited 1.5', 'exited -1', 'exited NaN', 'exited 1e3', 'gone', ''])
      expect(() => parseWorkload(text)).toThrow(GuestFault)
  })
})

describe('a log stream of random bytes', () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 40 }).map(bytes => Buffer.from(bytes)),
    fc.constantFrom('\nH abc 1 2\n', 'L 1 1 1 5\nhello\n', 'L 2 1 2 0\n\n', 'L 3 1 1 99\n', '\n').map(Buffer.from),
  )
  it('yields the same frames or a GuestFault, whatever the size of its chunks', () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.integer({ min: 1, max: 50 }), (pieces, cut) => {
        const data = Buffer.concat([Buffer.from('\nH abc 1 2\n'), ...pieces])
        const read = (parts: readonly Buffer[]) => {
          const frames: Frame[] = []
          const reader = frameReader('abc', some => frames.push(...some))
          try {
            for (const part of parts) reader(part)
          } catch (error) {
            if (!(error instanceof GuestFault)) throw error
          }
          return frames
        }
        const parts = Array.from({ length: Math.ceil(data.length / cut) }, (_, n) =>
          data.subarray(n * cut, (n + 1) * cut),
        )
        expect(read(parts)).toEqual(read([data]))
      }),
    )
  })
})
