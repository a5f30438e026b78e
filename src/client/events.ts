/** Server-sent events (WHATWG HTML, 9.2.6) as an async iterator. */
/** @typeParam Events data of each event by its name. A newer server may send events that are not in it. */
export type StreamEvent<Events = Readonly<Record<string, unknown>>> = {
  [Name in keyof Events & string]: {
    readonly event: Name
    /** Where to go on from: `Last-Event-ID`. */
    readonly id: string | undefined
    /** The JSON that was sent; text that is none stays text. */
    readonly data: Events[Name]
  }
}[keyof Events & string]

/** What a stream says: an event, or how long to wait before connecting again. */
export type StreamPart = { readonly event: StreamEvent } | { readonly retryMs: number }

/** The parts of a body as they come. Comments are dropped; a block without data is no event (9.2.6). */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamPart> {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let pending = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      pending += decoder.decode(value, { stream: true })
      const blocks = pending.replaceAll('\r\n', '\n').split('\n\n')
      pending = blocks.pop() ?? ''
      for (const block of blocks) yield* partsOf(block)
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

function partsOf(block: string): StreamPart[] {
  let event = 'message'
  let id: string | undefined
  let retryMs: number | undefined
  const data: string[] = []
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':')
    const name = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'event') event = value
    else if (name === 'id') id = value
    else if (name === 'data') data.push(value)
    else if (name === 'retry' && /^\d{1,9}$/.test(value)) retryMs = Number(value)
  }
  return [
    ...(retryMs === undefined ? [] : [{ retryMs }]),
    ...(data.length === 0 ? [] : [{ event: { event, id, data: parsed(data.join('\n')) } }]),
  ]
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
