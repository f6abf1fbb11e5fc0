// The page's words, in English and Chinese. An element names its words in data-words, or in data-label for
// aria-label.

const WORDS = {
  en: {
    playground: "Playground", skip: "To the message", agent: "Agent", version: "Version", key: "Key",
    begin: "New conversation", language: "Language", theme: "Theme", themeSystem: "System",
    themeLight: "Light", themeDark: "Dark", views: "Views", chat: "Chat", task: "Task", requests: "Requests",
    log: "Log", conversation: "Conversation", message: "Message", send: "Send", cancel: "Cancel the task",
    drop: "Drop the stream", resume: "Resume", skill: "Skill", anySkill: "the agent chooses", mode: "Mode",
    modeStream: "stream", modeWait: "wait for the answer", modeBackground: "background",
    parameters: "Parameters", more: "Files and metadata", files: "Files", metadata: "Metadata (JSON)",
    onlyTask: "Only this task", required: "required", unset: "not set",
    welcome: "Write a message, or choose a skill. Enter sends it, Shift+Enter begins a line. Drop or paste files.",
    edit: "Edit", retry: "Send again", detach: "Remove this file",
    answerQuestion: "Answer the question…", writeMessage: "Write a message…",
    noTask: "No task yet. Send a message.", noRequests: "No requests yet.", state: "State", id: "Task ID",
    context: "Context ID", updated: "Updated", artifacts: "Artifacts", steps: "Steps", sleeps: "sleeps", waitsFor: "waits for",
    copyCurl: "Copy curl", copied: "Copied", copy: "Copy", source: "Markdown as source", request: "Request", response: "Response", frames: "Frames",
    body: "Body", command: "command", dropped: "The stream was dropped. The task continues.",
    lost: "The answer was lost. If the agent got the message, its task is in the history.",
    running: "Running", noAnswer: "The server does not answer. Is it running?",
    badMetadata: "Metadata must be a JSON object, such as {\"user\": {\"userId\": \"u1\"}}.",
    badJson: "must be JSON, such as", uploading: "Uploading",
    notStored: "too large to keep after a reload", fileGone: "A file of this message was too large to keep. Attach it again.",
    history: "History", tasks: "tasks", refresh: "Refresh", olderOnes: "Older ones", card: "Card", skills: "Skills",
    noHistory: "This key has no tasks with this agent yet.", noCard: "The card could not be read.",
    schedules: "Schedules", fire: "Run now", started: "started: task", next: "next", owner: "owner",
    choices: "Answers", timeline: "Time line", spans: "Spans", showPdf: "Show the PDF",
    submitted: "submitted", working: "working", completed: "completed", failed: "failed", canceled: "canceled",
    rejected: "rejected", "input-required": "input-required", "auth-required": "auth-required", unspecified: "unknown",
  },
  zh: {
    playground: "调试台", skip: "跳到输入框", agent: "智能体", version: "协议版本", key: "密钥",
    begin: "新对话", language: "语言", theme: "主题", themeSystem: "跟随系统",
    themeLight: "浅色", themeDark: "深色", views: "视图", chat: "对话", task: "任务", requests: "请求",
    log: "日志", conversation: "对话", message: "消息", send: "发送", cancel: "取消任务",
    drop: "断开流", resume: "恢复", skill: "技能", anySkill: "由智能体选择", mode: "方式",
    modeStream: "流式", modeWait: "等待完整回答", modeBackground: "后台",
    parameters: "参数", more: "文件与元数据", files: "文件", metadata: "元数据（JSON）",
    onlyTask: "只看当前任务", required: "必填", unset: "未设置",
    welcome: "输入消息，或选择一个技能。按 Enter 发送，按 Shift+Enter 换行。可以拖放或粘贴文件。",
    edit: "编辑", retry: "重新发送", detach: "移除此文件",
    answerQuestion: "回答上面的问题……", writeMessage: "输入消息……",
    noTask: "还没有任务。请先发送消息。", noRequests: "还没有请求。", state: "状态", id: "任务 ID",
    context: "上下文 ID", updated: "更新时间", artifacts: "产物", steps: "步骤", sleeps: "暂停", waitsFor: "等待",
    copyCurl: "复制 curl", copied: "已复制", copy: "复制", source: "显示 Markdown 源文字", request: "请求", response: "响应", frames: "事件（SSE）",
    body: "正文", command: "指令", dropped: "流已断开，任务仍在运行。",
    lost: "没有收到回答。如果智能体收到了消息，任务会在“历史对话”中。",
    running: "运行中", noAnswer: "服务没有响应。它在运行吗？",
    badMetadata: "元数据必须是 JSON 对象，例如 {\"user\": {\"userId\": \"u1\"}}。",
    badJson: "必须是 JSON，例如", uploading: "正在上传",
    notStored: "太大，刷新后不保留", fileGone: "这条消息中的文件太大，没有保留，请重新添加。",
    history: "历史对话", tasks: "个任务", refresh: "刷新", olderOnes: "更早的对话", card: "名片", skills: "技能",
    noHistory: "这个密钥在此智能体下还没有任务。", noCard: "读不到智能体名片。",
    "version:alibaba": "阿里云百炼", "version:qianfan": "百度千帆",
    schedules: "定时任务", fire: "立即运行", started: "已启动，任务", next: "下次", owner: "所有者",
    choices: "备选回答", timeline: "时间线", spans: "耗时明细（span）", showPdf: "查看 PDF",
    submitted: "已提交", working: "进行中", completed: "已完成", failed: "失败", canceled: "已取消",
    rejected: "已拒绝", "input-required": "等待输入", "auth-required": "等待登录", unspecified: "未知",
  },
};

let language = "en";

export function words(name) {
  return WORDS[language][name] ?? WORDS.en[name];
}

export function translate(chosen) {
  language = chosen in WORDS ? chosen : "en";
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  document.title = words("playground");
  for (const element of document.querySelectorAll("[data-words]")) element.textContent = words(element.dataset.words);
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", words(element.dataset.label));
  }
}

export function preferredLanguage() {
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
