import { Resolver as Client } from 'node:dns/promises'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import packet from 'dns-packet'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { forwarder, framed, hostResolvers } from './forward.ts'
import { type DnsClient, type Resolver, startResolver } from './server.ts'

const many = Array.from({ length: 40 }, (_, n) => `fd00::${(n + 1).toString(16)}`)
const clients: Record<string, DnsClient> = {
  '127.0.0.1': {
    names: new Map([
      ['shop', ['fd00::1', 'fd00::2']],
      ['db', []],
      ['many', many],
    ]),
    mayAskOthers: true,
  },
  '127.0.0.2': { names: new Map([['db', ['fd00:0:0:2::9']]]), mayAskOthers: false },
}

describe('the DNS resolver of guests', () => {
  const upstream = createSocket('udp4')
  const asked: string[] = []
  let resolver: Resolver
  const ask = (from = '127.0.0.1') => {
    const client = new Client({ timeout: 1_000, tries: 1 })
    client.setServers([`127.0.0.1:${resolver.port}`])
    client.setLocalAddress(from)
    return client
  }

  beforeAll(async () => {
    upstream.on('message', (message, from) => {
      const query = packet.decode(message)
      const [question] = query.questions ?? []
      asked.push(question?.name ?? '')
      if (question?.name === 'silent.example') return
      const answers = [{ type: 'A', name: question?.name ?? '', ttl: 1, data: '203.0.113.7' } as const]
      upstream.send(
        packet.encode({ type: 'response', id: query.id ?? 0, questions: query.questions ?? [], answers }),
        from.port,
        from.address,
      )
    })
    upstream.bind(0, '127.0.0.1')
    await once(upstream, 'listening')
    const forward = forwarder([`127.0.0.1#${upstream.address().port}`])
    resolver = await startResolver({
      address: '0.0.0.0',
      port: 0,
      forward,
      client: address => clients[address],
      queriesPerSecond: 1_000,
      onError: error => {
        throw error
      },
    })
  })
  afterAll(async () => {
    await resolver.stop()
    upstream.close()
  })

  it("resolves names of the client's project to all their addresses", async () => {
    expect(await ask().resolve6('shop.internal')).toEqual(['fd00::1', 'fd00::2'])
    expect(await ask().resolve6('SHOP.Internal')).toHaveLength(2)
  })

  it('returns NOERROR for a name without addresses of the queried type, and NXDOMAIN for an unknown name', async () => {
    await expect(ask().resolve6('db.internal')).rejects.toMatchObject({ code: 'ENODATA' })
    await expect(ask().resolve4('shop.internal')).rejects.toMatchObject({ code: 'ENODATA' })
    await expect(ask().resolve6('nothing.internal')).rejects.toMatchObject({ code: 'ENOTFOUND' })
    await expect(ask().reverse('fd00::1')).rejects.toMatchObject({ code: 'ENOTFOUND' })
    expect(asked).toEqual([])
  })

  it('resolves names without a domain if the project has them, and forwards all other such names', async () => {
    expect(await ask().resolve6('shop')).toEqual(['fd00::1', 'fd00::2'])
    await expect(ask().resolve4('shop')).rejects.toMatchObject({ code: 'ENODATA' })
    expect(asked).toEqual([])
    expect(await ask().resolve4('other')).toEqual(['203.0.113.7'])
    await expect(ask('127.0.0.2').resolve6('shop')).rejects.toMatchObject({ code: 'EREFUSED' })
    asked.length = 0
  })

  it('hides the names of other projects', async () => {
    expect(await ask('127.0.0.2').resolve6('db.internal')).toEqual(['fd00:0:0:2::9'])
    await expect(ask('127.0.0.2').resolve6('shop.internal')).rejects.toMatchObject({ code: 'ENOTFOUND' })
  })

  it('forwards names outside .internal only for guests whose firewall rules allow it', async () => {
    expect(await ask().resolve4('www.example')).toEqual(['203.0.113.7'])
    await expect(ask('127.0.0.2').resolve4('www.example')).rejects.toMatchObject({ code: 'EREFUSED' })
    expect(asked).toEqual(['www.example'])
  })

  it('ignores queries from addresses that belong to no guest', async () => {
    await expect(ask('127.0.0.3').resolve6('shop.internal')).rejects.toMatchObject({ code: 'ETIMEOUT' })
  })

  it('truncates long responses over UDP, and sends them in full over TCP', async () => {
    const [cut] = await rawUdp(resolver.port, {
      type: 'query',
      id: 7,
      questions: [{ type: 'AAAA', name: 'many.internal' }],
    })
    expect([cut?.flag_tc, cut?.answers?.length]).toEqual([true, 0])
    expect(await ask().resolve6('many.internal')).toEqual(many)
  })

  it('survives malformed packets', async () => {
    const socket = createSocket('udp4')
    for (const garbage of [Buffer.alloc(0), Buffer.from('x'), Buffer.alloc(600, 0xff)])
      socket.send(garbage, resolver.port, '127.0.0.1')
    expect(await ask().resolve6('shop.internal')).toHaveLength(2)
    socket.close()
  })

  const question = Buffer.from('\x04shop\x08internal\0\0\x1c\0\x01', 'latin1')
  const header = (questions: number, answers = 0) => {
    const head = Buffer.alloc(12)
    head.writeUInt16BE(questions, 4)
    head.writeUInt16BE(answers, 6)
    return head
  }
  it.each([
    ['many empty messages', Buffer.alloc(1 << 16)],
    ['a message of 64 KiB', framed(Buffer.concat([header(5000), Buffer.alloc(60_000)]))],
    ['two questions', framed(Buffer.concat([header(2), question, question]))],
    ['answers in a query', framed(Buffer.concat([header(1, 1), question, question]))],
    [
      'more queries than it reads responses for',
      Buffer.concat(Array(101).fill(framed(Buffer.concat([header(1), question])))),
    ],
  ])('closes a TCP connection whose client sends %s', async (_, data) => {
    const socket = connect(resolver.port, '127.0.0.1')
    const closed = once(socket, 'close')
    socket.on('error', () => undefined).resume()
    socket.write(data)
    await closed
    expect(await ask().resolve6('shop.internal')).toHaveLength(2)
  })

  it("the host's resolvers are read from resolv.conf", () => expect(hostResolvers().length).toBeGreaterThan(0))
})

async function rawUdp(port: number, query: packet.Packet) {
  const socket = createSocket('udp4')
  socket.send(packet.encode(query), port, '127.0.0.1')
  const [message] = await once(socket, 'message')
  socket.close()
  return [packet.decode(message)]
}
