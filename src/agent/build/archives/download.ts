/** Downloads with the host's network settings: its proxy, and the certificate authorities that builds trust. */
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { rootCertificates } from 'node:tls'
import { EnvHttpProxyAgent, fetch } from 'undici'
import { minutes } from '../../../lib/duration.ts'

/** A toolchain archive, with the checksum from its publisher's metadata or from a table in the agent. */
export interface Archive {
  readonly url: string
  readonly algorithm: 'sha256' | 'sha512'
  /** Hexadecimal hash of the archive. */
  readonly checksum: string
}

export interface Downloads {
  /** Downloads a text. @throws Error if the download fails, or the content has more than `maxBytes` */
  text(url: string, maxBytes: number): Promise<string>
  /**
   * Downloads an archive to `path`.
   * @throws Error if its checksum differs; the file at `path` is then wrong or incomplete
   */
  file(archive: Archive, path: string): Promise<void>
}

const textMs = minutes(1)
const fileMs = minutes(10)
/** Limit on the size of an archive. The largest toolchain archives have about 250 MB. */
const maxFileBytes = 512 << 20

/** @param authorities PEM certificates to trust besides the public ones; empty: none */
export function downloadsWith(authorities: string): Downloads {
  const tls = authorities === '' ? {} : { ca: [...rootCertificates, authorities] }
  const open = async (url: string, timeoutMs: number) => {
    const dispatcher = new EnvHttpProxyAgent({ connect: tls, requestTls: tls })
    const answer = await fetch(url, { dispatcher, signal: AbortSignal.timeout(timeoutMs) }).catch((error: unknown) => {
      const cause = error instanceof Error ? error.cause : undefined
      throw cause instanceof Error ? cause : error
    })
    if (answer.ok && answer.body) return Readable.fromWeb(answer.body)
    await answer.body?.cancel()
    throw new Error(`the server answered ${answer.status}`)
  }
  return {
    async text(url, maxBytes) {
      const parts: Buffer[] = []
      const limit = limited(url, maxBytes)
      limit.on('data', (part: Buffer) => void parts.push(part))
      await pipeline(await open(url, textMs), limit)
      return Buffer.concat(parts).toString('utf8')
    },
    async file({ url, algorithm, checksum }, path) {
      const hash = createHash(algorithm)
      const limit = limited(url, maxFileBytes, part => void hash.update(part))
      await pipeline(await open(url, fileMs), limit, createWriteStream(path, { mode: 0o400 }))
      const found = hash.digest('hex')
      if (found !== checksum) throw new Error(`the checksum of ${url} is ${found}, not ${checksum}`)
    },
  }
}

function limited(url: string, maxBytes: number, onPart: (part: Buffer) => void = () => undefined): Transform {
  let bytes = 0
  return new Transform({
    transform(part: Buffer, _, done) {
      bytes += part.length
      if (bytes > maxBytes) return done(new Error(`${url} is larger than the limit of ${maxBytes >> 20} MiB`))
      onPart(part)
      done(null, part)
    },
  })
}
