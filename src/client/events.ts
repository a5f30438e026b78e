/** Server-sent events (WHATWG HTML, 9.2.6) as an async iterator. */
/** @typeParam Events data of each event by its name. A newer server may send other events, too. */
export type StreamEvent<Events = Readonly<Record<string, unknown>>> = {
  [Name in keyof Events & string]: {
    readonly event: Name
    /** Id of the event, to resume after it with `Last-Event-ID`. */
    readonly id: string | undefined
    /** Data of the event: parsed JSON; other text is returned unchanged. */
    readonly data: Events[Name]
  }
}[keyof Events & string]

/** Part of a stream: an event, or the time to wait before reconnecting. */
export type StreamPart = { readonly event: StreamEvent } | { readonly retryMs: number }

/** Yields the parts of a body as they arrive. Comments are skipped; a block without data is not an event (9.2.6). */
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
