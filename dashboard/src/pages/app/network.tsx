import { Domains } from './domains.tsx'
import { Rules } from './rules.tsx'
import { Services } from './services.tsx'
import { useApp } from './use-app.ts'

export function Network() {
  const app = useApp()
  return (
    <div className="space-y-4">
      <Domains app={app} />
      {app.kind === 'web' && <Services app={app} />}
      <Rules app={app} />
    </div>
  )
}
