import { asObject, VmmError, type VmmHttp, type VmmMethod } from './vmm-http.ts'

/** One recorded API call to a VMM with its answer, without the values that differ between runs. */
export interface Exchange {
  readonly method: VmmMethod
  readonly path: string
  readonly body?: unknown
  readonly status: number
  /** The VMM's error text if it refused the call, otherwise the names of the fields in its answer. */
  readonly answer: string | readonly string[] | null
}

/** Makes the API calls in order and records each answer, including refusals. */
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
