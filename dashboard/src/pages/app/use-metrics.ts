import { useRef, useState } from 'react'
import { api } from '../../api/client.ts'
import { type LiveState, useStream } from '../../api/live.ts'
import { fieldOf, itemsOf, type Sample, sampleOf } from '../../api/shapes.ts'
import { type Point, pointOf, withPoint } from './samples.ts'

/** Live metrics of an app, one point per second. For one instant, the stream sends a `metrics` event per deployment. */
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
      if (event === 'snapshot') {
        const at = fieldOf(data, 'at')
        return add(itemsOf(data, 'deployments').map(sample => sampleOf(sample, at)))
      }
      if (event !== 'metrics') return
      const sample = sampleOf(data)
      if (gathered.current[0] && gathered.current[0].at !== sample.at) {
        add(gathered.current)
        gathered.current = []
      }
      gathered.current = [...gathered.current, sample]
    },
  )
  return { points, state }
}
