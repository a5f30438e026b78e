import { asObject, VmmError, type VmmHttp, type VmmMethod } from './vmm-http.ts'

/** One exchange with a VMM, as it is kept for comparison: what changes from run to run is not in it. */
export interface Exchange {
  readonly method: VmmMethod
  readonly path: string
  readonly body?: unknown
  readonly status: number
  /** The VMM's reason for a refusal, or the names of what it answered. */
  readonly answer: string | readonly string[] | null
}

/** Says the calls one after the other, whatever is answered. */
export async function converse(
  api: VmmHttp,
  calls: ReadonlyArray<Pick<Exchange, 'method' | 'path' | 'body'>>,
): Promise<Exchange[]> {
  const transcript: Exchange[] = []
  for (const call of calls) {
    try {
      const answer = await api.call(call.method, call.path, call.body)
      transcript.push({
        ...call,
        status: answer === undefined ? 204 : 200,
        answer: answer === undefined ? null : Object.keys(asObject(answer)).sort(),
      })
    } catch (error) {
      if (!(error instanceof VmmError)) throw error
      transcript.push({ ...call, status: error.status, answer: error.reason })
    }
  }
  return transcript
}
