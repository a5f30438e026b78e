import { Compass } from 'lucide-react'
import { LinkButton } from '../ui/button.tsx'
import { Empty } from '../ui/states.tsx'

export function NotFound() {
  return (
    <main className="grid min-h-dvh place-items-center">
      <Empty icon={Compass} title="Page not found" action={<LinkButton to="/apps">Go to your apps</LinkButton>}>
        It may have been deleted, or belong to a project you are not a member of.
      </Empty>
    </main>
  )
}
