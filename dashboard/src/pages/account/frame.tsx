import { Outlet } from '@tanstack/react-router'
import { Page } from '../../ui/layout.tsx'
import { Tabs } from '../../ui/tabs.tsx'

export function AccountFrame() {
  return (
    <Page title="Account">
      <div className="mb-6 border-b border-line">
        <Tabs
          label="Account pages"
          tabs={[
            { name: 'Profile', to: '/account', exact: true },
            { name: 'Security', to: '/account/security' },
            { name: 'Sessions', to: '/account/sessions' },
            { name: 'Access tokens', to: '/account/tokens' },
            { name: 'SSH keys', to: '/account/ssh-keys' },
          ]}
        />
      </div>
      <Outlet />
    </Page>
  )
}
