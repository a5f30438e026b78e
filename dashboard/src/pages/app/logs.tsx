import { api } from '../../api/client.ts'
import { Card } from '../../ui/layout.tsx'
import { Log } from '../../ui/log.tsx'
import { useApp } from './use-app.ts'

/** Number of past lines to load first. */
const tail = 1000

export function Logs() {
  const app = useApp()
  return (
    <Card flush className="overflow-hidden">
      <Log
        source={app.name}
        name={app.name}
        open={options => api.streamAppLogs({ app_name: app.name, query: { tail } }, options)}
        className="h-[calc(100dvh-17rem)] min-h-96"
      />
    </Card>
  )
}
