import { useRef, useState } from 'react'
import { api } from '../../api/client.ts'
import { type LiveState, useStream } from '../../api/live.ts'
import { type Point, pointOf, type Sample, withPoint } from './samples.ts'

/** Live metrics of an app, one point per second. For each second, the stream sends a `metrics` event per deployment. */
export function useMetrics(app_name: string): { readonly points: readonly Point[]; readonly state: LiveState } {
  const [points, setPoints] = useState<readonly Point[]>([])
  const gathered = useRef<readonly Sample[]>([])
  const add = (samples: readonly Sample[]) => {
    if (samples.length > 0) setPoints(known => withPoint(known, pointOf(samples, known.at(-1))))
  }
  const { state } = useStream(
    `metrics ${app_name}`,
    options => api.streamAppMetrics({ app_name }, options),
    ({ event, data }) => {
      if (event === 'snapshot') return add(data.deployments.map(one => ({ ...one, at: data.at })))
      if (event !== 'metrics') return
      if (gathered.current[0] && gathered.current[0].at !== data.at) {
        add(gathered.current)
        gathered.current = []
      }
      gathered.current = [...gathered.current, data]
    },
  )
  return { points, state }
}
