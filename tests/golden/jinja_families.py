"""Chat templates in the style of the known model families, written for these tests."""

FAMILIES = {}

FAMILIES["chatml"] = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

FAMILIES["chatml_lines"] = """{%- if messages and messages[0].role == 'system' -%}
    {%- set system_message = messages[0].content | trim -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set system_message = "You are a helpful assistant." -%}
    {%- set rest = messages -%}
{%- endif -%}
<|im_start|>system
{{ system_message }}<|im_end|>
{% for m in rest %}
<|im_start|>{{ m.role }}
{{ m.content | default('', true) | trim }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""

FAMILIES["gemma"] = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

FAMILIES["gemma3"] = """{{ bos_token }}
{%- if messages and messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if message['role'] == 'assistant' -%}{%- set role = "model" -%}{%- else -%}{%- set role = message['role'] -%}{%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""

FAMILIES["phi3"] = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

FAMILIES["phi4mini"] = """{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"""

FAMILIES["llama2"] = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

FAMILIES["llama3"] = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

FAMILIES["mistral_v1"] = """{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"""

FAMILIES["mistral_v3"] = """{%- set head = messages|first %}
{%- set has_system = head is defined and head.role == "system" %}
{%- set turns = messages[1:] if has_system else messages %}
{%- set asked = turns|selectattr("role", "equalto", "user")|list %}
{%- set count = namespace(plain=0) %}
{%- for turn in turns if turn.role in ["user", "assistant"] and not turn.tool_calls %}
    {%- if (count.plain is even) != (turn.role == "user") %}
        {{- raise_exception("user and assistant must take turns, at turn " ~ count.plain) }}
    {%- endif %}
    {%- set count.plain = count.plain + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for turn in turns %}
    {%- if turn.role == "user" %}
        {%- if tools and turn == asked|last %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {{- '{"type": "function", "function": {' }}
                {%- for name, part in tool.function.items() if name != "return" %}
                    {{- '"' ~ name ~ '": ' ~ (part|tojson if part is not string else '"' ~ part ~ '"') }}
                    {{- ", " if not loop.last }}
                {%- endfor %}
                {{- "}}" ~ (", " if not loop.last else "]") }}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {{- "[INST] " }}
        {%- if has_system and loop.last %}
            {{- head.content + "\\n\\n" }}
        {%- endif %}
        {{- turn.content + "[/INST]" }}
    {%- elif turn.tool_calls %}
        {{- "[TOOL_CALLS] [" }}
        {%- for one in turn.tool_calls %}
            {%- if one.id|default("")|length != 9 %}
                {{- raise_exception("a tool call's id has 9 characters, not " ~ one.id|default("")|length) }}
            {%- endif %}
            {{- (one.function|tojson)[:-1] ~ ', "id": "' ~ one.id ~ '"}' }}
            {{- ", " if not loop.last else "]" ~ eos_token }}
        {%- endfor %}
    {%- elif turn.role == "assistant" %}
        {{- " " + turn.content|trim + eos_token }}
    {%- elif turn.role == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' ~ turn.content ~ ', "call_id": "' ~ turn.tool_call_id ~ '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("no such role: " + turn.role) }}
    {%- endif %}
{%- endfor %}
"""

FAMILIES["mistral_v7"] = """{%- set today = strftime_now("%Y-%m-%d") %}
{%- set default_system_message = "You are a model. The current date is " + today + ".\\n" %}
{{- bos_token }}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set system_message = messages[0]['content'] %}
    {%- else %}
        {%- set system_message = messages[0]['content'][0]['text'] %}
    {%- endif %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = default_system_message %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' }}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if message['content'] is string %}
            {{- '[INST]' + message['content'] + '[/INST]' }}
        {%- else %}
            {{- '[INST]' }}
            {%- for block in message['content'] %}
                {%- if block['type'] == 'text' %}
                    {{- block['text'] }}
                {%- elif block['type'] in ['image', 'image_url'] %}
                    {{- '[IMG]' }}
                {%- else %}
                    {{- raise_exception('Only text and image blocks are supported in message content!') }}
                {%- endif %}
            {%- endfor %}
            {{- '[/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'system' %}
        {{- '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}
    {%- elif message['role'] == 'assistant' %}
        {%- if message['content'] is string %}
            {{- message['content'] + eos_token }}
        {%- elif message['content'] %}
            {{- message['content'][0]['text'] + eos_token }}
        {%- endif %}
    {%- else %}
        {{- raise_exception('Only user, system and assistant roles are supported!') }}
    {%- endif %}
{%- endfor %}"""

FAMILIES["deepseek_v3"] = """{% set state = namespace(prompt='', tool=false, first=true) %}
{%- for m in messages|selectattr('role', 'eq', 'system') %}{% set state.prompt = state.prompt ~ ('\\n\\n' if not loop.first) ~ m.content %}{% endfor -%}
{{ bos_token }}{{ state.prompt }}
{%- for m in messages|rejectattr('role', 'eq', 'system') %}
    {%- if m.role == 'user' %}
        {%- set state.tool = false %}{{ '<｜User｜>' + m.content }}
    {%- elif m.role == 'assistant' and 'tool_calls' in m %}
        {{- '<｜Assistant｜>' ~ (m.content or '') }}
        {%- for one in m.tool_calls %}
            {{- '<｜tool▁calls▁begin｜>' if loop.first else '\\n' }}
            {{- '<｜tool▁call▁begin｜>' + one.type + '<｜tool▁sep｜>' + one.function.name + '\\n```json\\n' + one.function.arguments|tojson + '\\n```<｜tool▁call▁end｜>' }}
        {%- endfor %}
        {{- '<｜tool▁calls▁end｜><｜end▁of▁sentence｜>' }}
    {%- elif m.role == 'assistant' %}
        {{- '<｜tool▁outputs▁end｜>' if state.tool else '<｜Assistant｜>' }}
        {%- set state.tool = false %}{{ m.content.split('</think>')|last }}<｜end▁of▁sentence｜>
    {%- elif m.role == 'tool' %}
        {{- '<｜tool▁outputs▁begin｜>' if not state.tool }}<｜tool▁output▁begin｜>{{ m.content }}<｜tool▁output▁end｜>
        {%- set state.tool = true %}
    {%- endif %}
{%- endfor %}
{%- if state.tool %}<｜tool▁outputs▁end｜>{% elif add_generation_prompt %}{{ '<｜Assistant｜><think>\\n' }}{% endif %}"""

FAMILIES["qwen3"] = """{%- set sys = messages[0].content if messages and messages[0].role == 'system' else '' %}
{%- if tools or sys %}
    {{- '<|im_start|>system\\n' + sys }}
    {%- for tool in tools or [] %}
        {{- ('\\n\\n# Tools\\n<tools>' if sys else '# Tools\\n<tools>') if loop.first }}
        {{- '\\n' ~ tool|tojson }}
        {{- '\\n</tools>' if loop.last }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(query=-1) %}
{%- for m in messages[::-1] if ns.query < 0 %}
    {%- if m.role == 'user' and m.content is string and not (m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>')) %}
        {%- set ns.query = messages|length - loop.index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set content = m.content if m.content is string else '' %}
    {%- if m.role == 'assistant' %}
        {%- set thought = m.reasoning_content if m.reasoning_content is string else '' %}
        {%- if not thought and '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.query and (loop.last or thought) %}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
        {%- for call in m.tool_calls or [] %}
            {%- set call = call.function or call %}
            {{- '\\n' if content or not loop.first }}
            {{- '<tool_call>\\n{"name": "' ~ call.name ~ '", "arguments": ' ~ (call.arguments if call.arguments is string else call.arguments|tojson) ~ '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif m.role == 'tool' %}
        {{- '<|im_start|>user' if loop.first or loop.previtem.role != 'tool' }}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {{- '<|im_end|>\\n' if loop.last or loop.nextitem.role != 'tool' }}
    {%- elif m.role == 'user' or not loop.first %}
        {{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {{- '<think>\\n\\n</think>\\n\\n' if enable_thinking is defined and enable_thinking is false }}
{%- endif %}"""

FAMILIES["granite"] = """{%- if messages and messages[0]['role'] == 'system' %}
     {%- set system_message = messages[0]['content'] %}
     {%- set loop_messages = messages[1:] %}
 {%- else %}
     {%- set system_message = "Knowledge Cutoff Date: April 2024.
Today's Date: " + strftime_now('%B %d, %Y') + ".
You are a model." %}
     {%- if tools and documents %}
         {%- set system_message = system_message + " Both." %}
     {%- elif tools %}
         {%- set system_message = system_message + " You have tools." %}
     {%- endif %}
     {%- set loop_messages = messages %}
 {%- endif %}
 {{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>
' }}
 {%- if tools %}
     {{- '<|start_of_role|>tools<|end_of_role|>' }}
     {{- tools | tojson(indent=4) }}
     {{- '<|end_of_text|>
' }}
 {%- endif %}
 {%- if documents %}
     {{- '<|start_of_role|>documents<|end_of_role|>' }}
     {%- for document in documents %}
         {{- 'Document ' + loop.index0 | string + '
' }}
         {{- document['text'] }}
         {%- if not loop.last %}
              {{- '

'}}
         {%- endif%}
     {%- endfor %}
     {{- '<|end_of_text|>
' }}
 {%- endif %}
 {%- for message in loop_messages %}
     {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>
' }}
     {%- if loop.last and add_generation_prompt %}
         {{- '<|start_of_role|>assistant' }}
             {%- if controls %}
                 {{- ' ' + controls | tojson()}}
             {%- endif %}
         {{- '<|end_of_role|>' }}
     {%- endif %}
 {%- endfor %}"""

FAMILIES["command_r"] = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command-R' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% if system_message != false %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% elif message['role'] == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'  + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"""

FAMILIES["harmony"] = """{%- macro render_type(spec) -%}
    {%- if spec.type == "array" -%}
        {%- if spec['items'] -%}{{ render_type(spec['items']) + '[]' }}{%- else -%}any[]{%- endif -%}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping -%}
        {{- spec.type | join(" | ") -}}
    {%- elif spec.enum -%}
        {{- '"' + spec.enum|join('" | "') + '"' -}}
    {%- elif spec.type in ["number", "integer"] -%}
        {{- "number" -}}
    {%- elif spec.type == "object" -%}
        {%- if spec.properties -%}
            {{- "{\\n" -}}
            {%- for name, prop in spec.properties.items() -%}
                {{- name -}}{%- if name not in (spec.required or []) -%}{{- "?" -}}{%- endif -%}{{- ": " -}}{{ render_type(prop) }}
                {%- if not loop.last -%}{{- ", " -}}{%- endif -%}
            {%- endfor -%}
            {{- "}" -}}
        {%- else -%}
            {{- "object" -}}
        {%- endif -%}
    {%- else -%}
        {{- spec.type|default("any") -}}
    {%- endif -%}
{%- endmacro -%}
{%- if reasoning_effort is not defined %}{%- set reasoning_effort = "medium" %}{%- endif %}
{{- "<|start|>system<|message|>Knowledge cutoff: 2024-06\\nCurrent date: " + strftime_now("%Y-%m-%d") + "\\n\\nReasoning: " + reasoning_effort + "<|end|>" }}
{%- if tools -%}
    {{- "<|start|>developer<|message|># Tools\\n\\nnamespace functions {\\n\\n" }}
    {%- for tool in tools -%}
        {%- set tool = tool.function -%}
        {{- "// " + tool.description + "\\ntype " + tool.name + " = (_: {\\n" }}
        {%- for name, spec in tool.parameters.properties.items() %}
            {{- "// " + spec.description + "\\n" + name }}
            {%- if name not in (tool.parameters.required or []) %}{{- "?" }}{%- endif %}
            {{- ": " + render_type(spec) }}
            {%- if spec.default is defined %}{{- ", // default: " + spec.default|string }}{%- endif %}
            {{- "," if not loop.last }}
            {{- "\\n" }}
        {%- endfor %}
        {{- "}) => any;\\n\\n" }}
    {%- endfor %}
    {{- "} // namespace functions<|end|>" }}
{%- endif -%}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "tool_calls" in message %}
            {%- set tool_call = message.tool_calls[0] %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {%- if message.content and message.thinking %}
                {{- raise_exception("Cannot pass both content and thinking!") }}
            {%- elif message.content %}
                {{- "<|start|>assistant<|channel|>analysis<|message|>" + message.content + "<|end|>" }}
            {%- endif %}
            {{- "<|start|>assistant to=functions." + tool_call.name + "<|channel|>commentary json<|message|>" }}
            {{- tool_call.arguments|tojson }}
            {{- "<|call|>" }}
            {%- set last_tool_call.name = tool_call.name %}
        {%- elif loop.last and not add_generation_prompt %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
        {%- else %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
            {%- set last_tool_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}
            {{- raise_exception("Message has tool role, but there was no previous assistant message with a tool call!") }}
        {%- endif %}
        {{- "<|start|>functions." + last_tool_call.name }}
        {{- " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}"""

FAMILIES["glm4"] = """[gMASK]<sop>
{%- if tools -%}
<|system|>
# 可用工具
{% for tool in tools %}
    {%- set function = tool.function if tool.get("function") else tool %}

## {{ function.name }}

{{ function | tojson(indent=4, ensure_ascii=False) }}
在调用上述函数时，请使用 Json 格式表示调用的参数。
{%- endfor %}
{%- endif -%}
{%- for msg in messages %}
    {%- if msg.role == 'system' %}
<|system|>
{{ msg.content }}
    {%- endif %}
{%- endfor %}
{%- for message in messages if message.role != 'system' %}
    {%- set role = message['role'] %}
    {%- set content = message['content'] %}
    {%- set meta = message.get("metadata", "") %}
    {%- if role == 'user' %}
<|user|>
{{ content }}
    {%- elif role == 'assistant' and not meta %}
<|assistant|>
{{ content }}
    {%- elif role == 'tool' %}
<|observation|>
{{ content }}
    {%- endif %}
{%- endfor %}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""

FAMILIES["zephyr"] = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

FAMILIES["vicuna"] = """{%- set sep = ' ' -%}{% if messages[0].role == 'system' %}{{ messages[0].content }}{% else %}A chat.{% endif %}{% for role, content in messages|map(attribute='role')|zip(messages) %}{% endfor %}"""

FAMILIES["generation"] = """{% for m in messages %}{% if m.role == 'assistant' %}A: {% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}
{% else %}{{ m.role | title }}: {{ m.content }}
{% endif %}{% endfor %}"""
